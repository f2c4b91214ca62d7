"""Executing: tasks are claimed, worked through request by request, and settled."""
