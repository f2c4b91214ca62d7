"""Event streams: published once, read by any number of clients on any instance, resumable.

`StreamPublisher` writes, `StreamHub` reads for all clients of a process; `docs/adr/0006-event-streams.md`
says why it is so.
"""

from penstock.kernel.streams.event import Notice, StreamEvent
from penstock.kernel.streams.hub import StreamHub
from penstock.kernel.streams.publish import StreamPublisher
from penstock.kernel.streams.reader import StreamReader
from penstock.kernel.streams.settings import StreamSettings
from penstock.kernel.streams.snapshots import SnapshotProvider, Snapshots
from penstock.kernel.streams.subscription import Request, Subscription

__all__ = [
    "Notice",
    "Request",
    "SnapshotProvider",
    "Snapshots",
    "StreamEvent",
    "StreamHub",
    "StreamPublisher",
    "StreamReader",
    "StreamSettings",
    "Subscription",
]
