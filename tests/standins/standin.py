"""What all stand-ins have in common: counting, limits, faults, pages cut out of the library, and a control address.

A service adds its shapes: `answer`, `encode`, `id_of`, `number_of`, and how it words its refusals.
"""

import asyncio
import gzip
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from tests.standins.counts import Counts
from tests.standins.faults import Faults
from tests.standins.library import SUBJECTS, Entry, Library
from tests.standins.wire import HTML, TEXT, Connection, Request, Response, as_json, as_text

CACHED_ITEMS = 300_000
CONTROL = "/__control"
KEY = "standin-key"


@dataclass(slots=True)
class Options:
    """`vanishing`: withdrawn records are no longer served, where the service has no way to say "deleted"."""

    faults: Faults = field(default_factory=Faults)
    enforce_rate: bool = True
    latency: float = 0.0
    body_bytes: int = 1500
    vanishing: bool = False
    compress: bool = True
    clock: Callable[[], float] = time.monotonic
    port: int = 0
    rate: int | None = None  # requests a second that `generic` admits


class Shown(NamedTuple):
    """A record as the service shows it: with its own precision."""

    updated: datetime
    version: int
    is_deleted: bool
    body: bytes


class Cut(NamedTuple):
    items: list[Entry]
    total: int
    last: Entry | None  # of the page in the service's own order
    next_start: int


class Standin:
    name: ClassVar[str]
    keeps_deleted: ClassVar[bool] = False  # deletions are announced, not only missed
    precision: ClassVar[timedelta] = timedelta(seconds=1)

    def __init__(self, library: Library, options: Options | None = None) -> None:
        self.library = library
        self.options = options or Options()
        self.faults = self.options.faults
        self.counts = Counts()
        self.url = ""
        self._skipped = 0.0
        self._items: dict[tuple[int, int], bytes] = {}

    # What a service says for itself

    def answer(self, request: Request) -> Response:
        raise NotImplementedError

    def encode(self, entry: Entry) -> bytes:
        raise NotImplementedError

    def id_of(self, number: int) -> str:
        raise NotImplementedError

    def number_of(self, provider_id: str) -> int | None:
        raise NotImplementedError

    def admits(self, request: Request) -> bool:
        return True

    def too_many(self, request: Request) -> Response:
        return as_text("Too many requests", 429)

    def broken(self) -> Response:
        return Response(503, b"<html><body><h1>503 Service Unavailable</h1></body></html>", HTML)

    def in_band(self) -> Response | None:
        """An error told with status 200, where the service does such a thing."""
        return None

    def decorate(self, request: Request, response: Response) -> None:
        """Headers that every answer has."""

    # What tests ask

    def records_at(self, instant: datetime) -> dict[str, Shown]:
        """The source as it was: provider id → what the service would have shown."""
        return {
            self.id_of(entry.number): Shown(self.shown(entry), entry.version, entry.is_deleted, self.encoded(entry))
            for entry in self.library.at(instant).values()
            if self.serves(entry)
        }

    def shown(self, entry: Entry) -> datetime:
        rest = (entry.updated - datetime.min.replace(tzinfo=entry.updated.tzinfo)) % self.precision
        return entry.updated - rest

    def warm(self) -> None:
        """Writes every item once, so that nothing but serving is left to do."""
        for entry in self.library.at(self.library.end).values():
            self.encoded(entry)

    def skip(self, seconds: float) -> None:
        """Limits and tokens grow older by so much, at once."""
        self._skipped += seconds

    def moment(self) -> float:
        return self.options.clock() + self._skipped

    # Tools for the services

    def serves(self, entry: Entry | None) -> bool:
        return entry is not None and not (self.options.vanishing and not self.keeps_deleted and entry.is_deleted)

    def held(self, provider_id: str) -> Entry | None:
        number = self.number_of(provider_id)
        entry = None if number is None else self.library.get(number)
        return entry if self.serves(entry) else None

    def window(self, stamp: str, first: datetime, end: datetime, asked: str = "") -> Sequence[Entry]:
        subject = next((word for word in SUBJECTS if word in asked.lower()), None)
        found = self.library.window(stamp, first, end, subject)
        if self.options.vanishing and not self.keeps_deleted:
            return [entry for entry in found if not entry.is_deleted]
        return found

    def encoded(self, entry: Entry) -> bytes:
        key = (entry.number, entry.version)
        if (body := self._items.get(key)) is None:
            body = self.encode(entry)
            if len(self._items) < CACHED_ITEMS:
                self._items[key] = body
        return body

    def cut(self, entries: Sequence[Entry], start: int, size: int) -> Cut:
        """One page, with the faults that pages have."""
        faults = self.faults
        if start > 0 and size and faults.strikes("repeat_page"):
            start = max(0, start - size)
        items = list(entries[start : start + size])
        last, total = (items[-1] if items else None), len(entries)
        if faults.strikes("out_of_order"):
            faults.chance.shuffle(items)
        if items and faults.strikes("duplicate_ids"):
            items += faults.chance.sample(items, min(len(items), 3))
        if faults.strikes("changing_totals"):
            total = max(0, total + faults.chance.choice((-1, 1)) * (1 + total // 50))
        return Cut(items, total, last, start + size)

    def after(self, entries: Sequence[Entry], stamp: datetime, number: int) -> int:
        """Where to read on in a list that may have changed since."""
        return bisect_right(entries, (stamp, number), key=lambda entry: (entry.updated, entry.number))

    def filler(self, entry: Entry) -> str:
        """Enough words for an abstract, other ones for each record."""
        length = max(self.options.body_bytes - 700, 40)
        start = (entry.number * 31 + entry.version * 7) % len(WORDS)
        return (WORDS[start:] + WORDS * (1 + length // len(WORDS)))[:length]

    # One request

    def handle(self, request: Request) -> Response:
        if request.path == CONTROL:
            return self._controlled(request)
        self.counts.arrived(self.moment())
        response = self._faulty(request)
        if response is None:
            allowed = not self.options.enforce_rate or self.admits(request)
            response = self._spoiled(self.answer(request)) if allowed else self.too_many(request)
        self.decorate(request, response)
        response.delay = response.delay or self.options.latency
        if self.options.compress and len(response.body) > 500 and "gzip" in request.headers.get("accept-encoding", ""):
            response.body = gzip.compress(response.body, 1)
            response.headers["Content-Encoding"] = "gzip"
        return response

    def left(self, response: Response | None) -> None:
        if response is None:
            self.counts.left(0, None)
        elif not response.headers.get("X-Control"):
            self.counts.left(response.status, response.page_key)

    def _faulty(self, request: Request) -> Response | None:
        if self.faults.strikes("rate_429"):
            return self.too_many(request)
        if self.faults.strikes("rate_500"):
            return self.broken()
        return self.in_band() if self.faults.strikes("in_band") else None

    def _spoiled(self, response: Response) -> Response:
        if response.status != 200:
            return response
        faults = self.faults
        if faults.strikes("reset"):
            response.cut = True
        elif faults.strikes("truncated_json"):
            response.body, response.page_key = response.body[: len(response.body) * 2 // 3], None
        elif faults.strikes("wrong_content_type"):
            if faults.chance.random() < 0.5:
                response.content_type = TEXT
            else:
                return Response(200, b"<html><body>We will be back soon.</body></html>", HTML)
        elif faults.strikes("slow_body"):
            response.spread = faults.slow_seconds
        return response

    def _controlled(self, request: Request) -> Response:
        """GET tells the counts; POST changes now, advance (seconds), skip, faults, enforce_rate, reset_counts."""
        if request.method == "POST":
            self.control(**request.json())
        told = {"name": self.name, "now": self.library.now.isoformat(), "counts": self.counts.told()}
        return as_json(told, **{"X-Control": "1"})

    def control(self, **changes: Any) -> None:
        if "now" in changes:
            self.library.now = datetime.fromisoformat(changes["now"])
        self.library.advance(timedelta(seconds=changes["advance"])) if "advance" in changes else None
        self.skip(changes.get("skip", 0))
        self.faults.change(**changes.get("faults", {}))
        self.options.enforce_rate = changes.get("enforce_rate", self.options.enforce_rate)
        if changes.get("reset_counts"):
            self.counts.clear()

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Standin"]:
        """Served on loopback for as long as the block lasts."""
        alive: set[Connection] = set()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Connection(self.handle, self.left, alive), "127.0.0.1", self.options.port
        )
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for connection in list(alive):
                connection.transport.abort()
            await server.wait_closed()


WORDS = (
    "Participants were followed for twelve weeks and the figures were read twice by people who did not know the group. "
    "Values below the limit of detection were kept as they came. Airway calibre, fasting glucose and blood pressure "
    "moved little in the first month & more in the second; the spread between centres was larger than the effect. "
    "We describe how samples were stored, which of them had to be taken again, and why two centres left early. "
)
