"""Looks at every object that stands in the bytes of a PDF, not only at those that its cross-reference table names."""

from penstock.pdf.bytescan.scan import scan_bytes

__all__ = ["scan_bytes"]
