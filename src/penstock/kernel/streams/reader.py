"""Reading topics from Redis; never blocks a connection.

Every page is read *from* the last known entry, that entry included: if it is not there any more (trimmed,
expired, flushed, restarted empty, its tail lost in a crash) the caller learns of it instead of reading on
over a hole. An empty topic gets a marker entry, so that there always is something to stand on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from redis.asyncio.client import PubSub

from penstock.kernel import json
from penstock.kernel.redis import Keys, Redis
from penstock.kernel.streams.event import KEPT_FAMILIES, Bookmark, Entry, Position, family
from penstock.kernel.streams.settings import StreamSettings


@dataclass(frozen=True, slots=True)
class Page:
    """The entries after a position, as far as they fit."""

    entries: list[Entry]
    anchored: bool  # the position's own entry was still there
    full: bool  # there may be more

    @property
    def events(self) -> list[Entry]:
        return [entry for entry in self.entries if entry.name]


class StreamReader:
    """All commands that read, and the one that marks an empty topic."""

    def __init__(self, redis: Redis, keys: Keys, settings: StreamSettings) -> None:
        self._redis = redis
        self._keys = keys
        self._settings = settings

    async def run(self) -> str:
        """Names this Redis process. Another name: it was restarted and may have lost its newest writes."""
        return str((await self._redis.info("server"))["run_id"])[:8]

    async def pages(self, after: Mapping[str, Position], run: str) -> dict[str, Page]:
        """One page of each topic in one round trip. Entries are labelled with `run`, known before the read."""
        size = self._settings.queue_maxsize
        pipeline = self._redis.pipeline(transaction=False)
        for topic, position in after.items():
            pipeline.xrange(self._keys.stream(topic), min=str(position), count=size + 1)
        replies = await pipeline.execute()
        return {
            topic: _page(reply, position, run, size)
            for (topic, position), reply in zip(after.items(), replies, strict=True)
        }

    async def tail(self, topic: str) -> Position:
        """The newest entry's position; an empty topic gets a marker first."""
        key = self._keys.stream(topic)
        newest = await self._redis.xrevrange(key, count=1)
        if newest:
            return Position.from_redis(newest[0][0])
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.xadd(key, {"m": "1"})
        if family(topic) not in KEPT_FAMILIES:
            pipeline.expire(key, self._settings.stream_ttl_sec)
        return Position.from_redis((await pipeline.execute())[0])

    def nudges(self) -> PubSub:
        return self._redis.pubsub()

    async def next_nudge(self, nudges: PubSub, seconds: float) -> Mapping[str, Any] | None:
        """redis-py subscribes again by itself after a reconnect, which shows as a `subscribe` message."""
        if not nudges.subscribed:
            await nudges.subscribe(self._keys.stream_nudge())
        message: Mapping[str, Any] | None = await nudges.get_message(timeout=seconds)
        return message


def nudged_topics(message: Mapping[str, Any]) -> list[str]:
    topics: list[str] = json.loads(message["data"])
    return topics


def _page(reply: list[tuple[bytes, dict[bytes, bytes]]], after: Position, run: str, size: int) -> Page:
    entries = [_entry(raw, fields, run) for raw, fields in reply]
    anchored = bool(entries) and entries[0].bookmark.position == after
    return Page(entries[1:] if anchored else entries, anchored, full=len(reply) > size)


def _entry(raw: bytes, fields: dict[bytes, bytes], run: str) -> Entry:
    return Entry(Bookmark(Position.from_redis(raw), run), fields.get(b"n", b"").decode(), fields.get(b"d", b""))
