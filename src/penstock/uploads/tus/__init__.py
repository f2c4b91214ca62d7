"""Uploads by the tus protocol, version 1.0.0."""
