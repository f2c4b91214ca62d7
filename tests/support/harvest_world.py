"""A source that a history happens to: its records, its clock, and a small HTTP server that serves them.

Time stands still unless the history moves it. Every version that the source ever had is kept, so that a test can say
of anything stored whether the source had it, and of anything missing whether it was there to be read.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.support.harvest_shapes import Shape

START = datetime(2024, 3, 1, tzinfo=UTC)
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Version:
    """What the source says of one record from some moment on. `is_loose`: see `World.is_loose`."""

    updated: datetime
    number: int
    is_deleted: bool = False
    is_loose: bool = False

    def body(self, ident: str) -> dict[str, Any]:
        return {
            "id": ident, "updated": self.updated.isoformat(), "version": self.number,
            "deleted": "yes" if self.is_deleted else "no",
        }  # fmt: skip


class WorldClock:
    """Ours. It moves when the history says so; waiting takes no time."""

    def __init__(self) -> None:
        self.moment = START

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return (self.moment - START).total_seconds()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


@dataclass
class World:
    shape: Shape
    clock: WorldClock
    records: dict[str, list[Version]] = field(default_factory=dict)
    broken: list[tuple[datetime, datetime, int]] = field(default_factory=list)  # windows that are refused, and how

    @property
    def source_now(self) -> datetime:
        return self.clock.now() - timedelta(seconds=self.shape.behind)

    def current(self) -> dict[str, Version]:
        return {ident: versions[-1] for ident, versions in self.records.items()}

    def change(self, ident: str, lateness: int, *, is_deleted: bool = False) -> bool:
        """A new version, stamped `lateness` seconds ago by the source's clock; false where the history cannot be."""
        updated = self.source_now - timedelta(seconds=lateness)
        versions = self.records.get(ident, [])
        if updated < START or (versions and updated < versions[-1].updated) or not self._has_room(ident, updated):
            return False
        version = Version(updated, len(versions) + 1, is_deleted, self.is_loose(lateness))
        self.records.setdefault(ident, []).append(version)
        return True

    def is_loose(self, lateness: int) -> bool:
        """It comes later than the safety lag allows: by the source's clock, which the answers tell.

        One answer of a clock that is days behind looks like an old copy from a cache, which must not hold a harvest
        back; so no client can know such a clock in time, and the lag has to be enough by ours.
        """
        return lateness + self.shape.unseen_lag > self.shape.lag

    def _has_room(self, ident: str, updated: datetime) -> bool:
        """No step of the source's clock holds more than can be paged through: such a source cannot be read at all."""
        most = self.shape.most_per_step
        if most is None:
            return True
        step = self.shape.floor(updated)
        others = (each for name, each in self.current().items() if name != ident)
        return sum(self.shape.floor(each.updated) == step for each in others) < most

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if path == "/details":
            found = [(ident, self.current().get(ident)) for ident in query["ids"].split(",")]
            return 200, {"items": [version.body(ident) for ident, version in found if version]}
        start, end = (datetime.strptime(query[name], _TIME).replace(tzinfo=UTC) for name in ("from", "to"))
        for first, last, status in self.broken:
            if start < last and first < end + timedelta(seconds=1):
                return status, {"error": "not now"}
        return self._page(self._within(start, end), query)

    def page_before(self, path: str, query: dict[str, str]) -> tuple[int, dict[str, Any]] | None:
        """The answer of a source that counts pages and sends the one before once more; none where there is none."""
        size, base = int(query.get("limit") or 0), self.shape.kind == "page1"
        if int(query.get("offset") or 0) >= size > 0:
            return self.answer(path, {**query, "offset": str(int(query["offset"]) - size)})
        if int(query.get("page") or 0) > base:
            return self.answer(path, {**query, "page": str(int(query["page"]) - 1)})
        return None

    def _within(self, start: datetime, end: datetime) -> list[tuple[datetime, str]]:
        inside = []
        for ident, version in self.current().items():
            step = self.shape.floor(version.updated)
            if start <= step and (step < end or (self.shape.inclusive and step == end)):
                inside.append((version.updated, ident))
        return sorted(inside)

    def _page(self, keys: list[tuple[datetime, str]], query: dict[str, str]) -> tuple[int, dict[str, Any]]:
        shape, size = self.shape, int(query["limit"])
        first = self._first(keys, query, size)
        if first is None:
            return 400, {"error": "no such place"}
        reach = len(keys) if shape.ceiling is None else min(len(keys), shape.ceiling)
        shown = keys[first : min(first + size, reach)]
        answer: dict[str, Any] = {"items": [self.current()[ident].body(ident) for _, ident in shown]}
        if shape.has_total:
            answer["total"] = len(keys)
        if shown and first + size < reach:
            after = f"{shown[-1][0].isoformat()}|{shown[-1][1]}"
            answer["next"] = after if shape.kind == "token" else "?" + urlencode({**query, "after": after})
        return 200, answer

    def _first(self, keys: list[tuple[datetime, str]], query: dict[str, str], size: int) -> int | None:
        place = query.get("after") or ""
        if place:
            moment, _, ident = place.partition("|")
            return sum(key <= (datetime.fromisoformat(moment), ident) for key in keys)
        first = int(query.get("offset") or 0) or (int(query.get("page") or 0) - (self.shape.kind == "page1")) * size
        first = max(0, first)
        return None if self.shape.ceiling is not None and first >= self.shape.ceiling else first


Hook = Callable[[str], Awaitable[tuple[int, bytes] | None]]


class WorldServer:
    """One for all histories: `world` and `hook` are exchanged. The hook may wait, or answer in the source's place."""

    def __init__(self) -> None:
        self.world: World | None = None
        self.hook: Hook | None = None
        self.url = ""
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                status, body = await self._answer(head.decode("latin-1"))
                assert self.world is not None
                date = format_datetime(self.world.source_now, usegmt=True)
                writer.write(
                    f"HTTP/1.1 {status} X\r\nDate: {date}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: str) -> tuple[int, bytes]:
        assert self.world is not None
        target = urlsplit(head.split(" ", 2)[1])
        if self.hook is not None and (instead := await self.hook(head)) is not None:
            return instead
        status, answer = self.world.answer(target.path, dict(parse_qsl(target.query)))
        return status, json.dumps(answer).encode()
