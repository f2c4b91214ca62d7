"""Receivers outside our database: webhooks, and whatever a plug-in brings under the entry point `penstock.sinks`.

A sink is called at least once per event, outside any transaction, in order per order key.
"""

from collections.abc import Awaitable, Callable
from importlib.metadata import entry_points
from typing import Protocol

from penstock.kernel.events import StoredEvent

ENTRY_POINT = "penstock.sinks"


class SinkRefused(Exception):
    """The receiver said no, or could not be reached; the text is kept with the delivery."""


class Sink(Protocol):
    """What a plug-in implements; its `name` is stored with every delivery."""

    name: str

    def wants(self, event_type: str) -> bool: ...

    async def send(self, event: StoredEvent) -> None: ...


Send = Callable[[StoredEvent], Awaitable[None]]


def installed() -> dict[str, Sink]:
    """Plug-in sinks found in this environment, by name."""
    found: dict[str, Sink] = {}
    for point in entry_points(group=ENTRY_POINT):
        sink: Sink = point.load()()
        found[sink.name] = sink
    return found
