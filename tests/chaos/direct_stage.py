"""The stage with phones on it: a bucket in a directory, processes that are killed over it, and what came of it."""

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database
from penstock.kernel.queue import Queue
from penstock.kernel.redis import Keys, connect
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.settings import DirectSettings
from penstock.uploads.direct.sweeping import sweep
from tests.chaos import stage
from tests.support.nursery import Child
from tests.support.shelf import FileShelf

T = TypeVar("T")
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Victim:
    """Who is killed while it does something about the file of this name."""

    name: str
    does: str
    point: str
    body: bytes = b""


class DirectStage(stage.Stage):
    """Leases are long: nobody but the dead may lose an upload. `bury` ends theirs at once."""

    module = "tests.chaos.direct_actors"

    def environment(self, name: str) -> dict[str, str]:
        return {
            **super().environment(name),
            "PENSTOCK_HOME": str(self.home),
            "PENSTOCK_SHUTDOWN_SECONDS": "10",
            "PENSTOCK_STALL_SECONDS": "60",  # nobody is paused here, but machines are busy
            "DIRECT_SHELF": str(self.home / "shelf"),
            "DIRECT_TRACE": str(self.home / f"{name}.trace"),
            "DIRECT_BUCKET_URL": "gs://shelf",
        }

    def open(self) -> None:
        super().open()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.shelf = FileShelf(self.home / "shelf")
        self.do(self._open())

    async def _open(self) -> None:
        self._database = Database(self.postgres.url, name="desk", size=4, stall_seconds=2)
        await self._database.open()
        self._redis = connect(self.redis.url)
        settings = DirectSettings(bucket_url="gs://shelf")
        queue = Queue(self._redis, Keys("chaos"))
        self.desk = DirectDesk(self._database, self.shelf, settings, SystemClock(), queue, "stage")

    async def _close(self) -> None:
        await self._redis.aclose()
        await self._database.close()

    def close(self) -> None:
        self.do(self._close())
        super().close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    # Processes -------------------------------------------------------------------------------------------------------
    def process(self, name: str, does: str, failpoint: str = "", **environment: str) -> Child:
        more = {"DIRECT_DOES": does, "PENSTOCK_FAILPOINT": failpoint, **environment}
        return self.start(name, **more)

    def kill_all(self, victims: Iterable[Victim]) -> None:
        """Each is started and dies at its point, a few at a time."""
        waiting = list(victims)
        for first in range(0, len(waiting), _AT_ONCE):
            some = waiting[first : first + _AT_ONCE]
            for victim in some:
                given = {"DIRECT_NAME": victim.name, "DIRECT_BODY": str(self.home / f"{victim.name}.body")}
                (self.home / f"{victim.name}.body").write_bytes(victim.body)
                self.process(victim.name, victim.does, f"{victim.point}=kill", **given)
            for victim in some:
                self.expect_killed(victim.name)

    def expect_killed(self, name: str) -> None:
        process = self.actors[name]
        self.wait_for(lambda: process.poll() is not None, 60, f"{name} is killed")
        assert process.returncode == -signal.SIGKILL, (name, self.log(name))
        self.kills += 1

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(errors="replace")

    # Uploads ---------------------------------------------------------------------------------------------------------
    def row(self, name: str) -> dict[str, Any]:
        [(row,)] = self.query(
            "select to_jsonb(u) from catalog.uploads u where original_filename = %(n)s", {"n": f"{name}.mp4"}
        )
        return row

    def change(self, assignments: str, name: str) -> None:
        self.query(
            f"update catalog.uploads set {assignments} where original_filename = %(n)s returning 1",
            {"n": f"{name}.mp4"},
        )

    def bury(self) -> None:
        """The leases of the dead are over; what was put off because of that is due."""
        self.query("update catalog.uploads set leased_until = now() where leased_until is not null returning 1")
        self.do(sweep(self.desk))
        self.query("update catalog.uploads set due_at = now() where due_at is not null returning 1")

    def events(self, upload_id: str) -> list[str]:
        found = self.query(
            "select event_type from outbox_events where payload->>'upload_id' = %(id)s order by event_id",
            {"id": upload_id},
        )
        return [name for (name,) in found]

    def files(self) -> list[Path]:
        """Everything that the processes have written for people."""
        return [*self.home.glob("*.log"), *self.home.glob("*.trace")]
