"""One trace from the request that caused an event to the call that delivers it."""

import httpx
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock.api.app import create_app
from penstock.bootstrap import load_settings, started
from penstock.kernel.identity import Caller, Role
from penstock.kernel.telemetry import Masker, configure_tracing


@pytest.fixture
def environment(environment):
    environment.setenv("PENSTOCK_WEBHOOK_ALLOW_PRIVATE", "true")
    environment.setenv("PENSTOCK_WEBHOOK_TIMEOUT_SECONDS", "0.2")


class TestFollowing:
    async def test_a_request_its_event_and_the_delivery_share_one_trace(self, environment):
        async with started(load_settings(), role="serve") as parts:
            spans = InMemorySpanExporter()
            tracing = configure_tracing("serve", "w", parts.settings.telemetry, masker=Masker(), exporter=spans)
            token = parts.identity.issue(Caller("u", "m1", Role.UPLOADER))
            transport = httpx.ASGITransport(create_app(parts))
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                answer = await client.post(
                    "/api/v1/webhooks",
                    json={"url": "http://127.0.0.1:9/hook", "event_types": ["webhook.*"]},
                    headers={
                        "Authorization": f"Bearer {token}",
                        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                    },
                )
            assert answer.status_code == 201, answer.text
            while await parts.relay().relay_once():
                pass
            await parts.deliveries().drain()
            tracing.close()
        found = {span.name: span for span in spans.get_finished_spans()}
        assert set(found) >= {"POST /api/v1/webhooks", "deliver"}
        assert {format(span.context.trace_id, "032x") for span in found.values()} == {
            "0af7651916cd43dd8448eb211c80319c"
        }
        assert found["deliver"].parent.span_id == found["POST /api/v1/webhooks"].context.span_id
