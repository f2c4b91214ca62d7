"""A source that misbehaves, and everything that stands between it and a task."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from penstock.harvest.calling.credentials import Credentials
from penstock.harvest.calling.fetch import Fetcher, Order
from penstock.harvest.calling.pacing import Pacer
from penstock.harvest.calling.render import Context, render
from penstock.harvest.calling.transport import Transport, Transports
from penstock.harvest.settings import HarvestSettings
from penstock.harvest.spec import Operation, Spec
from penstock.kernel.clock import SystemClock
from penstock.kernel.rategate import RateGate

SECRET = "hushMARKED/secret+key=="


@dataclass
class Calling:
    """One process's way to sources; `references` is what the registry says of credentials."""

    transport: Transport
    credentials: Credentials
    pacer: Pacer
    fetcher: Fetcher
    references: dict[str, Any] = field(default_factory=dict)

    async def fetch(self, spec: Spec, operation: Operation = Operation.HARVEST, read: Any = None, **context: Any):
        request = render(spec, Context(now=SystemClock().now(), **context))
        return await self.fetcher.fetch(Order(spec, spec, request, "task-1", "ing-7-3", operation, read))


def spec_for(address: str, operation: Operation = Operation.HARVEST, **sections: Any) -> Spec:
    http = {"baseUrl": address, "allowHttp": True, "connectTimeout": "2s", "readTimeout": "5s"}
    quick = {"first": "1ms", "longest": "5ms", "maxAttempts": 3}
    fast = {"qps": 500, "burst": 100, "coolDown": "1s", "minRate": 100}
    return Spec.model_validate(
        {
            "provenanceCode": "example",
            "endpointName": "works",
            "operation": operation,
            "registryVersion": 1,
            **sections,
            "http": http | sections.get("http", {}),
            "retry": quick | sections.get("retry", {}),
            "rateLimit": fast | sections.get("rateLimit", {}),
        }
    )


@pytest.fixture
async def calling(redis_client, keys, tmp_path):
    references: dict[str, Any] = {}

    async def lookup(source: str, code: str) -> Any:
        return references.get(code)

    transports = Transports(allow_private=True)
    transport = transports.of(spec_for("http://127.0.0.1"))
    credentials = Credentials(lookup, tmp_path)
    settings = HarvestSettings(permit_seconds=timedelta(seconds=3))
    pacer = Pacer(RateGate(redis_client, keys), settings)
    yield Calling(transport, credentials, pacer, Fetcher(transports, credentials, pacer), references)
    await transport.close()
