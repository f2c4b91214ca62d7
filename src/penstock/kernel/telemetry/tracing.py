"""Traces that follow a request through HTTP, outbox, queue and worker, as W3C `traceparent`.

Without a collector nothing is recorded and the SDK is not even imported; a `traceparent` that comes in is
still passed on, so that Penstock never breaks somebody else's trace. What goes into a span is masked.
"""

import threading
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NoOpTracer, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from penstock.kernel.telemetry.masking import Masker
from penstock.kernel.telemetry.settings import TelemetrySettings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_W3C = TraceContextTextMapPropagator()
_CLOSING_SECONDS = 5


class Tracing:
    """The tracer of this process; the one that was configured last is in use."""

    def __init__(self, tracer: Tracer, masker: Masker, provider: "TracerProvider | None" = None) -> None:
        self.tracer = tracer
        self.masker = masker
        self._provider = provider

    @property
    def is_recording(self) -> bool:
        return self._provider is not None

    def close(self) -> None:
        """Send what is left and stop; a collector that hangs is left behind after a few seconds."""
        if self._provider is None:
            return
        closing = threading.Thread(target=self._provider.shutdown, name="tracing-close", daemon=True)
        closing.start()
        closing.join(_CLOSING_SECONDS)
        self._provider, self.tracer = None, NoOpTracer()


_current = Tracing(NoOpTracer(), Masker())


def configure_tracing(
    role: str, worker_id: str, settings: TelemetrySettings, *, masker: Masker, exporter: "SpanExporter | None" = None
) -> Tracing:
    """Record and export if there is a collector; `exporter` stands in for the one over HTTP."""
    global _current  # noqa: PLW0603  one tracer per process, as OpenTelemetry has it
    if exporter is None and not settings.otlp_endpoint:
        _current = Tracing(NoOpTracer(), masker)
        return _current
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

    resource = Resource.create({"service.name": "penstock", "service.instance.id": worker_id, "penstock.role": role})
    provider = TracerProvider(
        resource=resource, sampler=ParentBasedTraceIdRatio(settings.trace_ratio), shutdown_on_exit=False
    )
    provider.add_span_processor(BatchSpanProcessor(exporter or _over_http(settings)))
    _current = Tracing(provider.get_tracer("penstock"), masker, provider)
    return _current


def _over_http(settings: TelemetrySettings) -> "SpanExporter":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=f"{settings.otlp_endpoint}/v1/traces", timeout=3)


def current_traceparent() -> str | None:
    """What the next hop needs to go on with this trace; None outside of one."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier.get("traceparent")


def current_trace_id() -> str | None:
    context = trace.get_current_span().get_span_context()
    return format(context.trace_id, "032x") if context.is_valid else None


def with_traceparent(headers: MutableMapping[str, str]) -> MutableMapping[str, str]:
    """Adds the trace to the headers of an outgoing HTTP request; they are returned too."""
    _W3C.inject(headers)
    return headers


@contextmanager
def continued(
    traceparent: str | None, span_name: str, *, kind: SpanKind = SpanKind.CONSUMER, **attributes: Any
) -> Iterator[Span]:
    """A span that goes on with a trace from elsewhere; an absent or broken traceparent starts a new one."""
    if traceparent is None and not _current.is_recording and not trace.get_current_span().get_span_context().is_valid:
        yield trace.INVALID_SPAN  # nothing comes in, nothing is recorded, and there is nothing to hide from those below
        return
    context = _W3C.extract({"traceparent": traceparent} if traceparent else {}, Context())
    with _entered(context, span_name, kind, attributes) as span:
        yield span


@contextmanager
def spanned(span_name: str, *, kind: SpanKind = SpanKind.INTERNAL, **attributes: Any) -> Iterator[Span]:
    """A step inside the current span."""
    with _entered(None, span_name, kind, attributes) as span:
        yield span


@contextmanager
def _entered(context: Context | None, name: str, kind: SpanKind, attributes: dict[str, Any]) -> Iterator[Span]:
    """OpenTelemetry's own recording of exceptions would export their texts unmasked."""
    tracing = _current
    with tracing.tracer.start_as_current_span(
        name, context=context, kind=kind, record_exception=False, set_status_on_exception=False
    ) as span:
        describe(span, **attributes)
        try:
            yield span
        except Exception as failure:
            if span.is_recording():
                text = tracing.masker.text(str(failure))
                span.add_event("exception", {"exception.type": type(failure).__name__, "exception.message": text})
                span.set_status(Status(StatusCode.ERROR, text))
            raise


def describe(span: Span, **attributes: Any) -> None:
    """Set attributes, masked; `http_route` becomes `http.route`."""
    if not span.is_recording():
        return
    masked = _current.masker.value(attributes)
    for name, value in masked.items():
        if value is not None:
            shown = value if isinstance(value, str | int | float | bool) else str(value)
            span.set_attribute(name.replace("_", "."), shown)
