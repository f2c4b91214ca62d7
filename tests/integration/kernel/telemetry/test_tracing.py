"""Traces that lead through a process and on to the next, and to a collector if there is one."""

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.support.log_lines import MASKER, Lines, logging_to

from penstock.kernel.telemetry import (
    TelemetrySettings,
    TraceMiddleware,
    configure_tracing,
    continued,
    current_trace_id,
    current_traceparent,
    spanned,
    with_traceparent,
)

SOURCE = str(Path(__file__).parents[4] / "src")


def recording(exporter: InMemorySpanExporter) -> Any:
    return configure_tracing("serve", "host-1", TelemetrySettings(), masker=MASKER, exporter=exporter)


class TestTracing:
    def test_one_trace_leads_from_the_request_over_the_outbox_to_the_worker(self):
        exporter = InMemorySpanExporter()
        tracing = recording(exporter)
        with spanned("request", kind=SpanKind.SERVER), spanned("transaction"):
            stored = current_traceparent()
        assert stored is not None
        with continued(stored, "relay", event_id=7):
            stored_again = current_traceparent()
        with continued(stored_again, "job"):
            pass
        tracing.close()
        spans = {span.name: span for span in exporter.get_finished_spans()}
        assert len({span.context.trace_id for span in spans.values()}) == 1
        parents = {name: span.parent.span_id if span.parent else None for name, span in spans.items()}
        ids = {name: span.context.span_id for name, span in spans.items()}
        assert parents == {
            "request": None,
            "transaction": ids["request"],
            "relay": ids["transaction"],
            "job": ids["relay"],
        }
        assert spans["relay"].attributes == {"event.id": 7}
        assert spans["job"].resource.attributes["penstock.role"] == "serve"

    @pytest.mark.parametrize("traceparent", [None, "", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01"])
    def test_without_a_usable_traceparent_a_new_trace_begins(self, traceparent):
        exporter = InMemorySpanExporter()
        tracing = recording(exporter)
        with spanned("outer"), continued(traceparent, "inner"):
            pass
        tracing.close()
        outer, inner = sorted(exporter.get_finished_spans(), key=lambda span: span.name, reverse=True)
        assert inner.parent is None
        assert inner.context.trace_id != outer.context.trace_id

    def test_without_a_collector_a_foreign_trace_is_passed_on_and_nothing_is_made(self):
        configure_tracing("serve", "host-1", TelemetrySettings(), masker=MASKER)
        given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        with continued(given, "relay"):
            assert current_traceparent() == given
            assert with_traceparent({}) == {"traceparent": given}
            assert current_trace_id() == "0af7651916cd43dd8448eb211c80319c"
        with spanned("alone"):
            assert current_traceparent() is None
            assert with_traceparent({"a": "b"}) == {"a": "b"}

    def test_an_exception_marks_the_span_with_its_text_masked(self):
        exporter = InMemorySpanExporter()
        tracing = recording(exporter)
        with pytest.raises(ValueError, match="hunter2"), spanned("step", url="http://u:hunter2@h/"):
            raise ValueError("token=hunter2")
        tracing.close()
        [span] = exporter.get_finished_spans()
        assert span.status.status_code is StatusCode.ERROR
        assert span.events[0].attributes["exception.type"] == "ValueError"
        assert "hunter2" not in span.to_json()

    def test_log_lines_carry_the_trace(self):
        lines = Lines()
        log = logging_to(lines)
        tracing = recording(InMemorySpanExporter())
        with spanned("step"):
            trace_id = current_trace_id()
            log.info("inside")
        log.info("outside")
        tracing.close()
        assert [record.get("trace_id") for record in lines.records] == [trace_id, None]

    async def test_an_http_request_goes_on_with_the_callers_trace_and_is_named_by_its_route(self):
        exporter = InMemorySpanExporter()
        tracing = recording(exporter)

        class Route:
            path = "/jobs/{id}"

        async def app(scope: Any, receive: Any, send: Any) -> None:
            scope["route"] = Route()
            await send({"type": "http.response.start", "status": 503, "headers": []})

        async def send(message: Any) -> None:
            assert message["status"] == 503

        given = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        scope = {"type": "http", "method": "GET", "path": "/jobs/5", "headers": [(b"traceparent", given)]}
        await TraceMiddleware(app)(scope, None, send)  # type: ignore[arg-type]
        tracing.close()
        [span] = exporter.get_finished_spans()
        assert (span.name, span.kind) == ("GET /jobs/{id}", SpanKind.SERVER)
        assert format(span.context.trace_id, "032x") == "0af7651916cd43dd8448eb211c80319c"
        assert span.attributes["http.response.status_code"] == 503
        assert span.attributes["http.route"] == "/jobs/{id}"
        assert span.status.status_code is StatusCode.ERROR

    def test_the_sdk_is_not_loaded_without_a_collector(self):
        code = (
            "import sys; from penstock.kernel.telemetry import *; start_telemetry('serve', 'w', TelemetrySettings());"
            "print(any(name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter')) for name in sys.modules))"
        )
        environment = os.environ | {"PYTHONPATH": SOURCE}
        ended = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        assert ended.stdout == "False\n"


@dataclass
class Collector:
    """An OTLP collector on loopback."""

    endpoint: str = ""
    received: list[Any] = field(default_factory=list)

    def spans(self) -> list[Any]:
        found = []
        for body in self.received:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                found += [span for scope in resource.scope_spans for span in scope.spans]
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.received.append(_unzipped(body, self.headers.get("Content-Encoding")))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    made.endpoint = f"http://127.0.0.1:{server.server_port}"
    yield made
    server.shutdown()
    server.server_close()
    thread.join()


def _unzipped(body: bytes, encoding: str | None) -> bytes:
    return gzip.decompress(body) if encoding == "gzip" else body


class TestExporting:
    def test_spans_of_two_processes_meet_in_the_collector_when_they_close(self, collector):
        settings = TelemetrySettings(otlp_endpoint=collector.endpoint)
        tracing = configure_tracing("serve", "host-1", settings, masker=MASKER)
        with spanned("request"):
            stored = current_traceparent()
        tracing.close()
        code = (
            "import sys; from penstock.kernel.telemetry import *\n"
            "telemetry = start_telemetry('worker', 'w', TelemetrySettings(otlp_endpoint=sys.argv[1]))\n"
            "with continued(sys.argv[2], 'job'): pass\n"
            "telemetry.close()"
        )
        environment = os.environ | {"PYTHONPATH": SOURCE}
        subprocess.run([sys.executable, "-c", code, collector.endpoint, stored], env=environment, check=True)
        request, job = sorted(collector.spans(), key=lambda span: span.name, reverse=True)
        assert job.trace_id == request.trace_id
        assert job.parent_span_id == request.span_id

    def test_a_collector_that_is_away_costs_a_log_line_and_no_request(self):
        lines = Lines()
        logging_to(lines)
        settings = TelemetrySettings(otlp_endpoint="http://127.0.0.1:9")
        tracing = configure_tracing("serve", "host-1", settings, masker=MASKER)
        with spanned("request"):
            pass
        tracing.close()
        assert any("opentelemetry" in record["logger"] for record in lines.records)
