"""Post-processors: each makes JSON of what was read, by a rule. Found by the rule's `postprocess_mode`."""
