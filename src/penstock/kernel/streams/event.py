"""What goes into a stream and what comes out of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

KEPT_FAMILIES = frozenset({"dashboard"})

_SPOKEN = re.compile(r"(\d{1,20})-(\d{1,20})-([0-9a-f]{8})")
_LARGEST = 2**64 - 1  # that Redis takes


def family(topic: str) -> str:
    """`job:42` is of the family `job`; families share a snapshot provider and a lifetime."""
    return topic.partition(":")[0]


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One announced fact. `event_id` is the outbox row: a second copy of it in a topic is dropped."""

    event_id: int
    topics: tuple[str, ...]
    name: str
    data: Mapping[str, Any]
    merchant_id: str | None = None

    def __post_init__(self) -> None:
        if not self.name.isidentifier():  # a line break in a name would forge frames
            raise ValueError(f"{self.name!r} cannot be the name of an event")


class Position(NamedTuple):
    """Where an entry stands in its topic; ordered."""

    milliseconds: int
    sequence: int

    @classmethod
    def from_redis(cls, raw: bytes) -> "Position":
        milliseconds, _, sequence = raw.partition(b"-")
        return cls(int(milliseconds), int(sequence))

    def __str__(self) -> str:
        return f"{self.milliseconds}-{self.sequence}"


class Bookmark(NamedTuple):
    """What a client hands back as Last-Event-ID: a position, and the Redis process it was read from."""

    position: Position
    run: str

    @classmethod
    def parse(cls, text: str | None) -> "Bookmark | None":
        """None for what we never sent: it is answered with a snapshot, as an error would end the client's retries."""
        found = _SPOKEN.fullmatch(text or "")
        if found is None or max(int(found[1]), int(found[2])) > _LARGEST:
            return None
        return cls(Position(int(found[1]), int(found[2])), found[3])

    def __str__(self) -> str:
        return f"{self.position}-{self.run}"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a topic as read. A marker has no name: it only holds a place in an empty topic."""

    bookmark: Bookmark
    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Notice:
    """One event on its way to a client. Without a bookmark the client keeps the one it has."""

    name: str
    data: bytes
    bookmark: Bookmark | None = None
