"""Telemetry."""


def current_traceparent() -> str | None:
    return None
