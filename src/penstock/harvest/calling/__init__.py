"""Requests to sources: rendered, authenticated, paced, sent, repeated when that helps, and accounted for."""
