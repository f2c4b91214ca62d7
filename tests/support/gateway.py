"""A real `penstock serve` that tests can kill and start again, and what it keeps of uploads."""

import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg.rows import dict_row

from penstock.embedded import EmbeddedPostgres, EmbeddedRedis
from penstock.kernel.identity import Role
from tests.support import nursery
from tests.support.edge import SECRET, free_port, token
from tests.support.nursery import Child
from tests.support.places import open_directory
from tests.support.programs import environment
from tests.support.tus import UPLOADS, Tus, id_of


class Gateway:
    """The same port and directory from start to start."""

    def __init__(self, home: Path, database_url: str, redis_url: str, **settings: str) -> None:
        self.home = home
        self.database_url = database_url
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.endpoint = self.address + UPLOADS
        self.settings = {
            "PENSTOCK_DATABASE_URL": database_url,
            "PENSTOCK_REDIS_URL": redis_url,
            "PENSTOCK_REDIS_PREFIX": "gateway",
            "PENSTOCK_STORE_URL": (home / "store").as_uri(),
            "PENSTOCK_HOME": str(home),
            "PENSTOCK_PORT": str(self.port),
            "PENSTOCK_GRPC_PORT": str(free_port()),
            "PENSTOCK_JWT_SECRET": SECRET,
            "PENSTOCK_SANDBOX_WORKERS": "1",
            "GW_TUS_KEEP_FREE_BYTES": str(64 << 20),  # tests have small disks
            "GW_UPLOAD_RATE_PER_SEC": "10000",
            "GW_UPLOAD_BURST": "10000",
            **settings,
        }
        self.process: Child | None = None
        self._connection: psycopg.Connection[dict[str, Any]] | None = None

    def start(self, *, wait: bool = True, **extra: str) -> Self:
        log = self.home / "serve.log"
        self.process = nursery.penstock("serve", log=log, env=environment(**self.settings, **extra))
        if wait:
            self.until_answers()
        return self

    def until_answers(self, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log()}"
            if self.is_up():
                return
            time.sleep(0.05)
        raise AssertionError(f"it does not answer within {seconds:.0f} s:\n{self.log()}")

    def is_up(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/health/live", timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """SIGKILL: no handler runs, nothing is flushed."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        if self._connection is not None:  # the next look opens it again
            self._connection.close()
            self._connection = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        try:
            return self.process.wait(15)
        finally:
            self.kill()

    @contextmanager
    def scheduler(self) -> Iterator[None]:
        """A `penstock scheduler` beside it, for what is done by the clock."""
        process = nursery.penstock(
            "scheduler",
            log=self.home / "scheduler.log",
            env=environment(**self.settings, PENSTOCK_SCHEDULER_TICK_SECONDS="0.1"),
        )
        try:
            yield
        finally:
            process.kill()
            process.wait()

    def expire(self, path: str) -> None:
        """Make this upload old, and wait until the scheduler (which must run) has seen to it."""
        old = "update tus_uploads set expires_at = now() - interval '1 minute' where upload_id = %s"
        self.query(old, id_of(path))
        deadline = time.monotonic() + 30
        while self.row(path)["status"] != "EXPIRED":
            assert time.monotonic() < deadline, "nobody expires uploads"
            self.query("update schedule set next_run_at = now() where name = 'uploads.expire' and lease_owner is null")
            time.sleep(0.05)

    def log(self, lines: int = 30) -> str:
        return "\n".join((self.home / "serve.log").read_text(errors="replace").splitlines()[-lines:])

    def caller(self, merchant: str = "m-1", role: Role | str = Role.UPLOADER) -> Tus:
        return Tus(self.address, token(role, merchant, seconds=3600))

    def query(self, statement: str, *values: Any) -> list[dict[str, Any]]:
        if self._connection is None:
            self._connection = psycopg.connect(self.database_url, row_factory=dict_row, autocommit=True)
        cursor = self._connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []

    def row(self, path: str) -> dict[str, Any]:
        [found] = self.query("select * from tus_uploads where upload_id = %s", id_of(path))
        return found

    def file_of(self, path: str) -> Path | None:
        """Where its bytes are; None when there is no file."""
        return next((found for found in self.home.rglob(id_of(path)) if found.is_file()), None)

    def bytes_of(self, path: str) -> bytes:
        """What counts: the file up to the offset; of a finished upload the whole file, which must end there."""
        row, file = self.row(path), self.file_of(path)
        received = int(row["received"])
        kept = file.read_bytes() if file else b""
        kept = kept if row["status"] == "FINISHED" else kept[:received]
        assert len(kept) == received, f"{received} bytes are promised and {len(kept)} are there"
        return kept


@contextmanager
def running_gateway(postgres: EmbeddedPostgres, redis_server: EmbeddedRedis, **settings: str) -> Iterator[Gateway]:
    with open_directory() as home:
        made = Gateway(home, postgres.url, redis_server.url, **settings)
        try:
            yield made.start()
        finally:
            made.kill()
