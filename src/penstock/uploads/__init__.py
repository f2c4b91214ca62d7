"""Bytes come in."""
