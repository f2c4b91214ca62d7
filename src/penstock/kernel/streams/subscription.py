"""One client's way through a topic: what it missed, then live, without a hole, a repeat or a swap.

The seam. The hub offers each new entry to every member's bounded queue, in order. A newcomer reads pages
from its own position and lets offers pass, until a page is not full. Just before asking for each page it
empties the queue and begins to collect. So when the last page arrives, whatever is not on it was offered
after the queue was emptied and is in the queue; whatever is on both is recognised by its position.

Loss. Whenever something may be missing (the place in the stream is gone, Redis was restarted, the queue
overflowed) the client is sent a snapshot before the next event. A snapshot is read after the place from
which events go on is fixed, so state and events overlap and never leave a gap; events carry `event_id` and
are facts, so seeing one that the snapshot already holds does no harm.
"""

import asyncio
import weakref
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from penstock.kernel.errors import PenstockError, raise_unless_unavailable
from penstock.kernel.redis import RedisTrouble
from penstock.kernel.streams.event import Bookmark, Entry, Notice, Position
from penstock.kernel.streams.metrics import QUEUE_OVERFLOW, SNAPSHOTS

if TYPE_CHECKING:
    from penstock.kernel.streams.hub import StreamHub
    from penstock.kernel.streams.reader import Page

T = TypeVar("T")

_REPLAY_SECONDS = 0.02  # after a full page of what was missed: a merchant that replays all day leaves time to others


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for."""

    topic: str
    merchant_id: str | None = None  # whose share of the connections this takes
    last_event_id: str | None = None
    snapshot_first: bool = True  # for a client that brings no id
    until: frozenset[str] = frozenset()  # the stream ends after an event of such a name,
    is_last: Callable[[Notice], bool] = lambda _: True  # if this agrees


class Subscription:
    """Made by `StreamHub.subscribe`; read with `take`, given back with `close`."""

    def __init__(self, hub: "StreamHub", request: Request, release: Callable[[], None]) -> None:
        self.request = request
        self.hub = hub
        self._queue: deque[Entry] = deque()
        self._collecting = False
        self._behind = False
        self._seen_up_to: Position | None = None
        self._waiting: asyncio.Future[bool] | None = None
        self._ahead: AsyncIterator[list[Notice]] | None = self._open()
        self._step: asyncio.Future[list[Notice] | None] | None = None
        self._ended = False
        # A subscription that is dropped before its response began still gives its place back.
        self._slot = weakref.finalize(self, release)
        self._slot.atexit = False

    async def take(self, seconds: float) -> list[Notice] | None:
        """The next events, all that wait; an empty list after `seconds` of silence; None at the end."""
        if self._ended or self.hub.closed:
            return None
        if self._ahead is None and self._behind:
            self._behind = False
            self._ahead = self._resync()
        if self._ahead is not None:
            return await self._take_ahead(self._ahead, seconds)
        if self._queue and (notices := self._drain()):
            return notices
        return await self.take(seconds) if await self._wakes_within(seconds) else []

    def offer(self, entries: list[Entry]) -> None:
        """Live entries from the hub. A full queue drops its oldest."""
        if not self._collecting:
            return
        room = self.hub.settings.queue_maxsize
        for entry in entries:
            if len(self._queue) >= room:
                self._queue.popleft()
                QUEUE_OVERFLOW.inc()
                self._behind = True
            self._queue.append(entry)
        self._wake()

    def fall_behind(self, goes_on_after: Position | None = None) -> None:
        """The hub lost something of this topic; it may have had to go on from another place."""
        self._behind = True
        if goes_on_after is not None and self._seen_up_to is not None and self._seen_up_to > goes_on_after:
            self._seen_up_to = None  # made anew under a clock that was set back
        self._wake()

    def end(self) -> None:
        """No more events: a reader that waits gets None."""
        self._ended = True
        self._wake()
        if self._step is not None:
            self._step.cancel()

    def close(self) -> None:
        self.end()
        self.hub.leave(self)
        self._slot()

    async def _take_ahead(self, ahead: AsyncIterator[list[Notice]], seconds: float) -> list[Notice] | None:
        """Work that may wait for Redis or PostgreSQL goes on across calls, so that heartbeats are not held up."""
        if self._step is None:
            self._step = asyncio.ensure_future(_next_or_none(ahead))
        await asyncio.wait({self._step}, timeout=seconds)
        if self._ended or not self._step.done():
            return None if self._ended else []
        step, self._step = self._step, None
        notices = step.result()
        if notices is None:
            self._ahead = None
            return await self.take(seconds)
        return self._checked(notices)

    async def _wakes_within(self, seconds: float) -> bool:
        """An event and a time-out in one future: this runs once per client and event."""
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        timer = loop.call_later(seconds, self._wake, False)
        try:
            return await self._waiting
        finally:
            timer.cancel()
            self._waiting = None

    def _wake(self, something: bool = True) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(something)

    def _drain(self) -> list[Notice]:
        entries, self._queue = self._queue, deque()
        known = self._seen_up_to
        fresh = [e for e in entries if e.name and (known is None or e.bookmark.position > known)]
        return self._checked([_notice(entry) for entry in fresh])

    def _checked(self, notices: list[Notice]) -> list[Notice]:
        for index, notice in enumerate(notices):
            if notice.name in self.request.until and self.request.is_last(notice):
                self.end()
                return notices[: index + 1]
        return notices

    async def _open(self) -> AsyncIterator[list[Notice]]:
        topic, reader = self.request.topic, self.hub.reader
        self.hub.join(self)
        run = await self._read(lambda: self.hub.anchor(topic))
        bookmark = Bookmark.parse(self.request.last_event_id)
        position = bookmark.position if bookmark else None
        if bookmark is not None and bookmark.run != run:
            # That Redis is gone. Replay what it left, but its newest writes may be lost: state first.
            yield [await self._snapshot(None)]
        elif self.request.last_event_id is None and not self.request.snapshot_first:
            position = await self._read(lambda: reader.tail(topic))
        while True:
            self._queue.clear()
            self._collecting = True
            after = position
            page = None if after is None else await self._read(lambda: self._page(after))  # noqa: B023
            if page is None or not page.anchored:
                self._collecting = False
                position = await self._read(lambda: reader.tail(topic))
                yield [await self._snapshot(Bookmark(position, run))]
                continue
            if page.entries:
                position = page.entries[-1].bookmark.position
            self._seen_up_to = position
            self._collecting = not page.full
            if page.events:
                yield [_notice(entry) for entry in page.events]
            if not page.full:
                return

    async def _page(self, after: Position) -> "Page":
        """What was missed, page by page; the merchant's other streams wait while this one is sent a full one."""
        page = await self.hub.page(self.request.topic, after)
        if page.full:
            await asyncio.sleep(_REPLAY_SECONDS)
        return page

    async def _resync(self) -> AsyncIterator[list[Notice]]:
        yield [await self._snapshot(None)]

    async def _snapshot(self, bookmark: Bookmark | None) -> Notice:
        data = await self._patiently(lambda: self.hub.snapshots.read(self.request.topic, self.request.merchant_id))
        SNAPSHOTS.inc()
        return Notice("snapshot", data, bookmark)

    async def _read(self, attempt: Callable[[], Awaitable[T]]) -> T:
        async def in_turn() -> T:
            async with self.hub.opening.turn(self.request.merchant_id):
                return await attempt()

        return await self._patiently(in_turn)

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Redis or PostgreSQL away is no reason to let the client go."""
        while not self._ended:
            try:
                return await attempt()
            except RedisTrouble:
                pass
            except PenstockError as failure:
                raise_unless_unavailable(failure)
            await asyncio.sleep(self.hub.settings.catch_up_sec)
        raise asyncio.CancelledError


async def _next_or_none(ahead: AsyncIterator[list[Notice]]) -> list[Notice] | None:
    return await anext(ahead, None)


def _notice(entry: Entry) -> Notice:
    return Notice(entry.name, entry.data, entry.bookmark)
