"""One per process: brings new entries of the topics that someone here listens to, to all who listen.

One Pub/Sub connection hears which topics were written; one round trip reads all of them; each member's
queue is offered the new entries. A client costs no Redis connection and no blocking read. A nudge is only a
wake-up: every few seconds, and after each reconnect, all topics are read from their last known entry, so a
lost nudge costs seconds and never an event. A topic that is written all the time is read twenty times a
second, and few topics in one round trip, so that a merchant with many events and many listeners leaves time
to others. When the last known entry is gone, or Redis is another process than before, members are told that
they may have missed something and get a snapshot.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import structlog

from penstock.kernel import error_codes
from penstock.kernel.backoff import pause
from penstock.kernel.clock import Clock
from penstock.kernel.errors import PenstockError
from penstock.kernel.redis import RedisAway, RedisTrouble
from penstock.kernel.streams.event import Position
from penstock.kernel.streams.metrics import ACTIVE_CONNECTIONS
from penstock.kernel.streams.reader import Page, StreamReader, nudged_topics
from penstock.kernel.streams.settings import StreamSettings
from penstock.kernel.streams.snapshots import Snapshots
from penstock.kernel.streams.subscription import Request, Subscription
from penstock.kernel.streams.turns import MerchantTurns

log = structlog.get_logger(__name__)

_RETRY_SECONDS = 5
_OPENING_AT_ONCE = 16  # a thousand clients that come back together must not use up the Redis connections
_OPENING_PER_MERCHANT = 2
_TOPICS_AT_ONCE = 8
_PACE_SECONDS = 0.05  # between two reads of one topic
_BREATH_SECONDS = 0.005  # between two full pages: time for healthy readers to empty their queues


class _Topic:
    """What the hub has read of one topic, and who listens."""

    __slots__ = ("doubtful", "last", "lost", "members", "not_before")

    def __init__(self) -> None:
        self.last: Position | None = None  # None: not looked at yet
        self.lost = False  # the place is gone, and members do not know yet
        self.doubtful = False  # Redis was restarted, and members do not know yet
        self.members: set[Subscription] = set()
        self.not_before = 0.0  # on the event loop's clock: when it may be read again


class StreamHub:
    """`start` it, `subscribe` for each client, `close` it to end all streams."""

    def __init__(self, reader: StreamReader, snapshots: Snapshots, settings: StreamSettings, clock: Clock) -> None:
        self.reader = reader
        self.snapshots = snapshots
        self.settings = settings
        self.clock = clock
        self.closed = False
        self._away = False  # what the last look at Redis found
        self._topics: dict[str, _Topic] = {}
        self._run: str | None = None
        self._due: dict[str, None] = {}  # a set that keeps the order
        self._look_at_all = True
        self._next_look = 0.0
        self._awake = asyncio.Event()
        self._held: Counter[str | None] = Counter()
        self.opening = MerchantTurns(_OPENING_AT_ONCE, _OPENING_PER_MERCHANT)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for work in (self._listen(), self._deliver()):
            task = asyncio.create_task(work)
            task.add_done_callback(self._stopped)
            self._tasks.append(task)

    async def close(self) -> None:
        """End every stream; the clients come back to another instance."""
        self._end_all()
        while running := [task for task in self._tasks if not task.done()]:
            for task in running:
                task.cancel()
            await asyncio.wait(running, timeout=0.1)  # and again: redis-py swallows a cancel while it connects

    # --- for those who serve clients ---------------------------------------------------------------------
    def subscribe(self, request: Request) -> Subscription:
        """Takes one of the places; refuses when there is none, before anything is sent.

        Who is here when Redis goes away is kept until it is back; who comes then is told so.
        """
        if self.closed:
            raise PenstockError(error_codes.SERVICE_UNAVAILABLE)
        if not self.snapshots.serves(request.topic):
            raise PenstockError(error_codes.NOT_FOUND, topic=request.topic)
        if self._away:
            raise PenstockError(error_codes.REDIS_UNAVAILABLE, retry_after=_RETRY_SECONDS)
        merchant = request.merchant_id
        if self._held.total() >= self.settings.max_connections:
            raise _no_place("all", self.settings.max_connections)
        if merchant is not None and self._held[merchant] >= self.settings.per_merchant_max:
            raise _no_place("merchant", self.settings.per_merchant_max)
        self._held[merchant] += 1
        ACTIVE_CONNECTIONS.inc()
        return Subscription(self, request, lambda: self._release(merchant))

    @property
    def connections(self) -> int:
        return self._held.total()

    # --- for subscriptions -------------------------------------------------------------------------------
    def join(self, member: Subscription) -> None:
        self._topics.setdefault(member.request.topic, _Topic()).members.add(member)

    def leave(self, member: Subscription) -> None:
        topic = self._topics.get(member.request.topic)
        if topic is not None:
            topic.members.discard(member)
            if not topic.members:
                del self._topics[member.request.topic]

    async def anchor(self, name: str) -> str:
        """From here on the topic is followed without a hole. Returns the run it is followed in."""
        if self._run is None:
            run = await self.reader.run()
            self._run = self._run or run
        topic = self._topics.get(name)
        if topic is not None and topic.last is None:
            tail = await self.reader.tail(name)
            topic.last = topic.last or tail
        return self._run

    async def page(self, name: str, after: Position) -> Page:
        return (await self.reader.pages({name: after}, self._run or ""))[name]

    # --- hearing and reading -----------------------------------------------------------------------------
    async def _listen(self) -> None:
        async with self.reader.nudges() as nudges:
            while True:
                try:
                    message = await self.reader.next_nudge(nudges, self.settings.catch_up_sec)
                except RedisTrouble:
                    self._look_at_all = True
                    self._awake.set()  # at once, so that newcomers hear of it
                    await asyncio.sleep(min(1, self.settings.catch_up_sec))
                else:
                    self._heed(message)

    def _heed(self, message: Mapping[str, Any] | None) -> None:
        if message is None:
            return
        if message["type"] == "message":
            self._due.update((topic, None) for topic in nudged_topics(message) if topic in self._topics)
        else:  # subscribed, for the first time or again: nudges may have been missed
            self._look_at_all = True
        if self._due or self._look_at_all:
            self._awake.set()

    async def _deliver(self) -> None:
        troubled = False
        while True:
            if (seconds := self._idle_seconds()) > 0:
                await self._wait_for_work(seconds)
            try:
                if self._look_at_all or self.clock.monotonic() >= self._next_look:
                    await self._begin_catch_up()
                await self._pull()
                troubled = self._away = False
            except RedisTrouble as failure:
                self._look_at_all = True
                if not troubled:
                    log.warning("streams.waiting", reason=str(failure))
                troubled, self._away = True, isinstance(failure, RedisAway)
                await asyncio.sleep(min(1, self.settings.catch_up_sec))

    def _idle_seconds(self) -> float:
        """Until the next look at all topics, or until one that is due may be read again."""
        looks = self._next_look - self.clock.monotonic()
        now = asyncio.get_running_loop().time()
        return min([looks, *(self._topics[name].not_before - now for name in self._due if name in self._topics)])

    async def _wait_for_work(self, seconds: float) -> None:
        await pause(self._awake, seconds)
        self._awake.clear()

    async def _begin_catch_up(self) -> None:
        run = await self.reader.run()
        if self._run not in (None, run):
            for topic in self._topics.values():
                topic.doubtful = True
        self._run = run
        self._look_at_all = False
        self._next_look = self.clock.monotonic() + self.settings.catch_up_sec
        self._due.update(dict.fromkeys(self._topics))

    async def _pull(self) -> None:
        names = self._take_due()
        for name in names:
            await self._find_place_again(name)
        after = {n: self._topics[n].last for n in names if n in self._topics}
        known = {name: last for name, last in after.items() if last is not None}
        if not known:
            return
        for name, page in (await self.reader.pages(known, self._run or "")).items():
            topic = self._topics.get(name)
            if topic is not None and topic.last == known[name]:
                self._hand_out(name, topic, page)
        if self._due:
            await asyncio.sleep(_BREATH_SECONDS)

    def _take_due(self) -> list[str]:
        """Topics that may be read now, those that are due for longest first."""
        now = asyncio.get_running_loop().time()
        self._due = {name: None for name in self._due if name in self._topics}
        names = [name for name in self._due if self._topics[name].not_before <= now][:_TOPICS_AT_ONCE]
        for name in names:
            del self._due[name]
            self._topics[name].not_before = now + _PACE_SECONDS
        return names

    def _hand_out(self, name: str, topic: _Topic, page: Page) -> None:
        if page.entries:
            topic.last = page.entries[-1].bookmark.position
            for member in topic.members:
                member.offer(page.entries)
        if not page.anchored and not page.entries:
            topic.last, topic.lost = None, True  # stand on what is there now, and only then tell
        elif not page.anchored or topic.doubtful:
            _tell(topic)
        if page.full or topic.lost:
            self._due[name] = None

    async def _find_place_again(self, name: str) -> None:
        topic = self._topics.get(name)
        if topic is not None and topic.lost:
            await self.anchor(name)
            topic.lost = False
            _tell(topic, topic.last)

    # --- places ------------------------------------------------------------------------------------------
    def _release(self, merchant: str | None) -> None:
        self._held[merchant] -= 1
        if not self._held[merchant]:
            del self._held[merchant]
        ACTIVE_CONNECTIONS.dec()

    def _end_all(self) -> None:
        self.closed = True
        for topic in self._topics.values():
            for member in topic.members:
                member.end()

    def _stopped(self, task: asyncio.Task[None]) -> None:
        """A fault of ours: silence would look like health, so the clients are sent elsewhere."""
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("streams.stopped", exc_info=failure)
            self._end_all()


def _tell(topic: _Topic, goes_on_after: Position | None = None) -> None:
    topic.doubtful = False
    for member in topic.members:
        member.fall_behind(goes_on_after)


def _no_place(scope: str, limit: int) -> PenstockError:
    return PenstockError(error_codes.RATE_LIMITED, scope=scope, limit=limit, retry_after=_RETRY_SECONDS)
