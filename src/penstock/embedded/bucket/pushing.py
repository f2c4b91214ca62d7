"""Tells of new objects as Pub/Sub pushes them: at least once, in no order, again and again until somebody listens.

A notice is part of its object's record until it was heard, so a kill loses none; it may come twice. After many
tries it is laid in `dead`, for people.
"""

import asyncio
import base64
import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import httpx
import jwt
import msgspec
import structlog

from penstock.embedded.bucket import metrics
from penstock.embedded.bucket.faults import Faults
from penstock.embedded.bucket.keys import PUSHER, Keys
from penstock.embedded.bucket.ledger import Ledger
from penstock.embedded.bucket.records import Notice, described, encode, moment
from penstock.embedded.bucket.settings import BucketSettings
from penstock.embedded.bucket.shelf import Shelf
from penstock.embedded.bucket.threads import in_thread
from penstock.kernel import failpoints
from penstock.kernel.backoff import exponential
from penstock.kernel.clock import Clock

log = structlog.get_logger(__name__)
_HEARD = frozenset({102, 200, 201, 202, 204})
_AT_ONCE = 16
_LASTS = timedelta(hours=1)
_SERVES = timedelta(minutes=5)
_SUBSCRIPTION = "projects/penstock/subscriptions/uploads"
_HELD_SECONDS = 0.05


@dataclass(order=True, slots=True)
class _Due:
    at: float
    number: int
    notice: Notice = field(compare=False)
    attempts: int = field(default=0, compare=False)
    more: int = field(default=0, compare=False)  # heard already, but ordered to come again


class Pusher:
    """One loop; `run` until cancelled."""

    def __init__(
        self, ledger: Ledger, shelf: Shelf, settings: BucketSettings, clock: Clock, faults: Faults
    ) -> None:  # fmt: skip
        self._ledger, self._shelf, self._settings, self._clock, self._faults = ledger, shelf, settings, clock, faults
        self._due: list[_Due] = []
        self._running: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._numbers: Iterator[int] = iter(range(1 << 62))
        self._client = httpx.AsyncClient(timeout=settings.push_timeout.total_seconds(), trust_env=False)

    async def run(self, keys: Keys, issuer: str) -> None:
        """Everything that was not heard yet, then what comes."""
        envelope = Envelope(keys, self._settings, issuer, self._clock)
        loop = asyncio.get_running_loop()

        def publish(notice: Notice) -> None:
            loop.call_soon_threadsafe(self._add, notice)

        self._ledger.published = publish
        for notice in sorted(self._ledger.notices(), key=lambda each: each.object.generation):
            self._add(notice)
        try:
            while True:
                self._wake.clear()
                self._start_due(envelope)
                await self._something()
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._client.aclose()

    def _add(self, notice: Notice) -> None:
        heapq.heappush(
            self._due,
            _Due(self._clock.monotonic() + self._faults.notification_delay, next(self._numbers), notice,
                 more=self._faults.extra_deliveries),
        )  # fmt: skip
        self._wake.set()

    def _start_due(self, envelope: "Envelope") -> None:
        if self._faults.hold_notifications:
            return
        if self._faults.newest_first:
            self._due.sort(key=lambda each: -each.number)
        now = self._clock.monotonic()
        while self._due and len(self._running) < _AT_ONCE and self._due[0].at <= now:
            due = self._due.pop(0) if self._faults.newest_first else heapq.heappop(self._due)
            task = asyncio.create_task(self._push(due, envelope), name="push")
            self._running.add(task)
            task.add_done_callback(self._ended)
            if self._faults.newest_first:
                return  # one after the other
        heapq.heapify(self._due)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._wake.set()

    async def _something(self) -> None:
        """Wait until there may be something to do."""
        wait = None
        if self._due and len(self._running) < _AT_ONCE:
            wait = max(0.0, self._due[0].at - self._clock.monotonic())
            if self._faults.hold_notifications or self._faults.newest_first:
                wait = max(_HELD_SECONDS, wait)
        try:
            async with asyncio.timeout(wait):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _push(self, due: _Due, envelope: "Envelope") -> None:
        due.attempts += 1
        answer = await self._try(envelope.content(due.notice, due.attempts), envelope.token())
        is_heard = answer in _HEARD
        metrics.PUSHED.labels("heard" if is_heard else "not_heard").inc()
        try:
            if is_heard and due.more <= 0:
                failpoints.reach("bucket.notice_heard")
                await in_thread(self._ledger.told, due.notice)
                return
            if not is_heard and due.attempts >= self._settings.push_attempts:
                await self._give_up(due, answer)
                return
        except OSError as failure:
            log.warning("bucket.disk_trouble", reason=failure.strerror)
        self._again(due, is_heard=is_heard, answer=answer)

    def _again(self, due: _Due, *, is_heard: bool, answer: int | str) -> None:
        chosen, wait = self._settings, 0.0
        if is_heard:
            due.more -= 1
        else:
            wait = exponential(
                due.attempts, first=chosen.push_wait.total_seconds(), most=chosen.push_wait_most.total_seconds()
            )  # fmt: skip
            log.info("bucket.notification_not_heard", answer=answer, attempts=due.attempts, again_in=round(wait, 2))
        due.at = self._clock.monotonic() + wait
        heapq.heappush(self._due, due)
        self._wake.set()

    async def _try(self, content: bytes, token: str) -> int | str:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json", "user-agent": "Penstock"}
        try:
            answer = await self._client.post(self._settings.push_url, content=content, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as failure:
            return type(failure).__name__
        return answer.status_code

    async def _give_up(self, due: _Due, answer: int | str) -> None:
        metrics.PUSHED.labels("given_up").inc()
        name, attempts = due.notice.object.name, due.attempts
        log.error("bucket.notification_given_up", object=name, attempts=attempts, answer=answer)
        await in_thread(self._shelf.bury, due.notice.id, encode(due.notice))
        await in_thread(self._ledger.told, due.notice)


class Envelope:
    """What is sent, and the token that proves who sends it."""

    def __init__(self, keys: Keys, settings: BucketSettings, issuer: str, clock: Clock) -> None:
        self._keys = keys
        self._audience = settings.push_audience or settings.push_url
        self._issuer = settings.push_issuer or issuer
        self._clock = clock
        self._made: tuple[datetime, str] | None = None

    def content(self, notice: Notice, attempt: int) -> bytes:
        stored, when = notice.object, moment(notice.object.created)
        attributes = {
            "eventType": "OBJECT_FINALIZE",
            "payloadFormat": "JSON_API_V1",
            "bucketId": stored.bucket,
            "objectId": stored.name,
            "objectGeneration": str(stored.generation),
            "eventTime": when,
            "notificationConfig": f"projects/_/buckets/{stored.bucket}/notificationConfigs/1",
        }
        if notice.overwrote:
            attributes["overwroteGeneration"] = str(notice.overwrote)
        message: dict[str, Any] = {
            "data": base64.b64encode(msgspec.json.encode(described(stored, self._issuer))).decode(),
            "attributes": attributes,
            "messageId": notice.id,
            "message_id": notice.id,
            "publishTime": when,
            "publish_time": when,
        }
        return msgspec.json.encode({"message": message, "subscription": _SUBSCRIPTION, "deliveryAttempt": attempt})

    def token(self) -> str:
        """One serves many notifications for a while, as Pub/Sub's do: signing is dear."""
        now = self._clock.now()
        if self._made is None or not self._made[0] <= now < self._made[0] + _SERVES:
            self._made = now, self._signed(now)
        return self._made[1]

    def _signed(self, now: datetime) -> str:
        claims = {
            "iss": self._issuer, "aud": self._audience, "azp": "1", "sub": "1",
            "email": PUSHER, "email_verified": True, "iat": now, "exp": now + _LASTS,
        }  # fmt: skip
        return jwt.encode(claims, self._keys.pusher, algorithm="RS256", headers={"kid": self._keys.push_key_id})
