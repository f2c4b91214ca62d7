"""Domain events: facts in the past tense, written in the transaction that made them true.

Grammar: `entity.past` in lower snake case (`job.rejected`, `upload.finished`). `notice` is the name of the
server-sent event that people see, if there is one.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

_GRAMMAR = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
SLOTS = 16
KEY_BYTES = 1000  # indexes hold it
PAYLOAD_BYTES = 256 * 1024  # events carry ids and facts, not content; a relay holds a batch of them in memory


@dataclass(frozen=True, slots=True)
class Event:
    """What happened to which entity. Events with one `order_key` reach every receiver in order."""

    event_type: str
    entity_type: str
    entity_id: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    merchant_id: str | None = None
    notice: str | None = None
    topics: tuple[str, ...] = ()
    order_key: str = ""

    def __post_init__(self) -> None:
        if not _GRAMMAR.fullmatch(self.event_type):
            raise ValueError(f"event type {self.event_type!r} should read entity.past_participle")
        if not self.order_key:
            object.__setattr__(self, "order_key", f"{self.entity_type}:{self.entity_id}")
        if len(self.order_key.encode()) > KEY_BYTES:
            raise ValueError(f"the order key of {self.event_type} is longer than {KEY_BYTES} bytes")

    @property
    def slot(self) -> int:
        return slot_of(self.order_key)


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it was written: what relays and reactions see."""

    event_id: int
    event: Event
    trace: str | None
    occurred_at: datetime


def slot_of(order_key: str) -> int:
    """Stable over processes and versions: one key always lands in one slot."""
    return zlib.crc32(order_key.encode()) % SLOTS


def matches(pattern: str, event_type: str) -> bool:
    """`job.*` takes a family, `*` takes all, anything else itself."""
    if pattern == "*":
        return True
    if pattern.endswith(".*"):
        return event_type.startswith(pattern[:-1])
    return pattern == event_type
