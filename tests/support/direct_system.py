"""Direct uploads as they are run: serve, worker, scheduler and bucket, each a process that can be killed."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psycopg

from penstock.embedded import EmbeddedPostgres, EmbeddedRedis
from penstock.embedded.bucket.keys import PUSHER
from penstock.embedded.bucket.shelf import Shelf
from tests.support import nursery
from tests.support.bucket import NAME, BucketClient, answers
from tests.support.cutting_proxy import CuttingProxy
from tests.support.edge import free_port
from tests.support.emptying import empty
from tests.support.gateway import Gateway
from tests.support.nursery import Child
from tests.support.places import open_directory
from tests.support.programs import environment

_QUICK = {
    "DIRECT_LOOK_AFTER": "0.2",
    "DIRECT_LOOK_AT_MOST": "1",
    "DIRECT_LEASE_SECONDS": "3",
    "PENSTOCK_SCHEDULER_TICK_SECONDS": "0.1",
    "PENSTOCK_SANDBOX_WORKERS": "1",
    "PENSTOCK_POOL_SIZE": "4",
    "PENSTOCK_LOG_LEVEL": "debug",
}


class BucketRole(BucketClient):
    """`penstock bucket`."""

    def __init__(self, home: Path, **settings: str) -> None:
        self.port = free_port()
        super().__init__(f"http://127.0.0.1:{self.port}", home / "bucket")
        self.log = home / "bucket.log"
        self._settings = {"PENSTOCK_HOME": str(home), "PENSTOCK_BUCKET_PORT": str(self.port), **settings}
        self.process: Child | None = None

    def start(self, *, wait: bool = True, **more: str) -> Child:
        self.process = nursery.penstock("bucket", log=self.log, env=environment(**self._settings, **more))
        deadline = time.monotonic() + 60
        while wait and not answers(self.http, self.address):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, "the bucket does not answer"
            time.sleep(0.02)
        return self.process

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        self.http.close()
        self.kill()


class DirectSystem:
    """Everything speaks with the bucket through `network`, which can be cut and stalled."""

    def __init__(self, home: Path, postgres: EmbeddedPostgres, redis: EmbeddedRedis, **settings: str) -> None:
        self.home = home
        self.has_bucket = "DIRECT_BUCKET_URL" not in settings  # else it is somebody else's
        callback_port = free_port()
        callback = f"http://127.0.0.1:{callback_port}/_/gcs/callback"
        self.bucket = BucketRole(
            home, BUCKET_PUSH_URL=callback, BUCKET_PUSH_WAIT="0.05", BUCKET_PUSH_WAIT_MOST="0.3",
            BUCKET_PUSH_ATTEMPTS="100000", BUCKET_FAULT_SWITCHES="true", PENSTOCK_LOG_LEVEL="debug",
        )  # fmt: skip
        self.network = CuttingProxy(self.bucket.port)
        given = {
            **_QUICK,
            "PENSTOCK_PORT": str(callback_port),
            "DIRECT_BUCKET_URL": f"gs://{NAME}",
            "DIRECT_ENDPOINT": self.network.address,
            "DIRECT_SERVICE_ACCOUNT_FILE": str(self.bucket.directory / "service-account.json"),
            "DIRECT_CALLBACK_AUDIENCE": callback,
            "DIRECT_CALLBACK_EMAIL": PUSHER,
            "DIRECT_CALLBACK_ISSUERS": json.dumps([self.bucket.address]),
            "DIRECT_CALLBACK_JWKS_URL": f"{self.bucket.address}/oauth2/v3/certs",
            **settings,
        }
        self.serve = Gateway(home, postgres.url, redis.url, **given)
        self.serve.port = callback_port
        self.serve.address = f"http://127.0.0.1:{callback_port}"
        self.roles: dict[str, Child] = {}
        self._metrics_port = free_port()

    def start(self) -> None:
        self.network.__enter__()
        if self.has_bucket:
            self.bucket.start()  # who signs needs its key
        self.serve.start(wait=False)
        self.start_role("worker")
        self.start_role("scheduler")
        self.serve.until_answers(90)

    def start_role(self, name: str, **more: str) -> Child:
        own = {"PENSTOCK_METRICS_PORT": str(self._metrics_port)} if name == "worker" else {}
        env = environment(**self.serve.settings, **own, **more)
        self.roles[name] = nursery.penstock(name, log=self.home / f"{name}.log", env=env)
        return self.roles[name]

    def close(self) -> None:
        for process in self.roles.values():
            process.kill()
            process.wait()
        self.serve.kill()
        if self.has_bucket:
            self.bucket.close()
        self.network.__exit__()

    def order(self, **faults: Any) -> None:
        """Faults of the bucket."""
        answer = self.bucket.http.post(f"{self.bucket.address}/_/faults", json=faults)
        assert answer.status_code == 204, answer.text

    def calm(self) -> None:
        """As if nothing had been ordered."""
        if self.has_bucket:
            self.order(
                fail_after_bytes=None, lost_answers=0, expire_sessions=False, hold_notifications=False,
                newest_first=False, extra_deliveries=0, notification_delay=0.0,
            )  # fmt: skip
        self.network.down = False
        self.network.mend()

    # What is known ---------------------------------------------------------------------------------------------------
    def row(self, upload_id: str) -> dict[str, Any]:
        [found] = self.serve.query("select * from catalog.uploads where upload_id = %s", UUID(upload_id))
        return found

    def until(self, condition: Callable[[], Any], what: str, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}\n{self.logs()}"
            time.sleep(0.02)

    def until_ended(self, upload_id: str) -> dict[str, Any]:
        """Complete or failed, and nothing is left to do."""
        self.until(lambda: self._is_ended(self.row(upload_id)), f"{upload_id} has ended")
        return self.row(upload_id)

    def _is_ended(self, row: dict[str, Any]) -> bool:
        return row["status"] in ("completed", "failed") and row["due_at"] is None and row["leased_until"] is None

    def look_now(self, upload_id: str, *, days_later: int = 0) -> None:
        """As if so many days had passed since it was announced, and it were time to look for the object."""
        self.serve.query(
            "update catalog.uploads set opened_at = opened_at - make_interval(days => %s), due_at = now()"
            " where upload_id = %s and status in ('pending', 'uploading')",
            days_later, UUID(upload_id),
        )  # fmt: skip

    def hurry(self) -> None:
        """The same for all that is on its way."""
        with psycopg.connect(self.serve.database_url, autocommit=True) as connection:
            connection.execute(
                "update catalog.uploads set due_at = now()"
                " where status = 'pending' and due_at > now() and leased_until is null"
            )

    def told(self, upload_id: str) -> list[str]:
        """All events of an upload, in their order."""
        found = self.serve.query(
            "select event_type from outbox_events where payload->>'upload_id' = %s order by event_id", upload_id
        )
        return [row["event_type"] for row in found]

    def heard(self, row: dict[str, Any]) -> list[str]:
        """Generations of its object that were noted."""
        key = f"{row['bucket']}/{row['object_name']}#%"
        found = self.serve.query("select dedup_key from catalog.inbox_events where dedup_key like %s", key)
        return sorted(each["dedup_key"].rpartition("#")[2] for each in found)

    def objects(self) -> dict[str, bytes]:
        """All that the bucket holds."""
        with self.official() as there:
            return {blob.name: blob.download_as_bytes() for blob in there.list_blobs()}

    def untold(self) -> list[str]:
        """Objects that the bucket has still to tell of, or has given up telling."""
        shelf = Shelf(self.bucket.directory)
        dead = [path.name for path in (self.bucket.directory / "dead").glob("*")]
        return [notice.object.name for _, record in shelf.objects() for notice in record.notices] + dead

    @contextmanager
    def official(self) -> Iterator[Any]:
        """The bucket, for those who write with Google's own client and a key."""
        client = self.bucket.official()
        try:
            yield client.bucket(NAME)
        finally:
            client._http.close()

    def count(self, metric: str) -> float:
        """Of server and worker together."""
        lines = []
        for port in (self.serve.port, self._metrics_port):
            lines += httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(metric))

    def logs(self, lines: int = 12) -> str:
        parts = [
            f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
            for path in self.files()
        ]
        return "\n".join(parts)

    def files(self) -> list[Path]:
        """All that the processes have written for people."""
        return sorted(self.home.glob("*.log"))


@contextmanager
def running_system(postgres: EmbeddedPostgres, redis: EmbeddedRedis, **settings: str) -> Iterator[DirectSystem]:
    empty(postgres.url)
    with open_directory() as home:
        system = DirectSystem(home, postgres, redis, **settings)
        try:
            system.start()
            yield system
        finally:
            system.close()
    empty(postgres.url)
