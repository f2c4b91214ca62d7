"""The HTTP edge: parse, call, translate."""
