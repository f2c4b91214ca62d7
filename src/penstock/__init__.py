"""Penstock: documents and records come in once, and leave as checked, structured records."""

__version__ = "0.1.0"
