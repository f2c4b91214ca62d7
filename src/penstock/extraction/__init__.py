"""A document becomes JSON by a rule: an OCR stage, then a post-process stage."""
