"""Logs, traces and metrics of a role, with secrets and personal data masked.

    tracing = start_telemetry("serve", worker_id, settings)
    ...
    tracing.close()      # sends the spans that are left

Metrics stand apart in `telemetry.metrics`: they must not be imported before PROMETHEUS_MULTIPROC_DIR is set.
"""

from penstock.kernel.telemetry.asgi import TraceMiddleware
from penstock.kernel.telemetry.logs import bound, configure_logging
from penstock.kernel.telemetry.masking import Masker
from penstock.kernel.telemetry.settings import LogFormat, LogLevel, TelemetrySettings
from penstock.kernel.telemetry.tracing import (
    Tracing,
    configure_tracing,
    continued,
    current_trace_id,
    current_traceparent,
    spanned,
    with_traceparent,
)

__all__ = [
    "LogFormat",
    "LogLevel",
    "Masker",
    "TelemetrySettings",
    "TraceMiddleware",
    "Tracing",
    "bound",
    "configure_logging",
    "configure_tracing",
    "continued",
    "current_trace_id",
    "current_traceparent",
    "spanned",
    "start_telemetry",
    "with_traceparent",
]


def start_telemetry(role: str, worker_id: str, settings: TelemetrySettings) -> Tracing:
    """Logging and tracing of this process, from here on; `close` the answer at the end."""
    masker = Masker(settings.mask_key.get_secret_value().encode())
    configure_logging(role, worker_id, settings, masker=masker)
    return configure_tracing(role, worker_id, settings, masker=masker)
