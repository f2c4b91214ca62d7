"""Two `penstock serve` over one of everything else, and the pages of a job being read meanwhile."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any, Self
from uuid import UUID

from penstock.documents.states import PAGE, PageStatus
from penstock.embedded import EmbeddedPostgres, EmbeddedRedis
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.statemachine import Step, move
from tests.support.edge import token
from tests.support.following import Follower
from tests.support.gateway import Gateway
from tests.support.places import open_directory
from tests.support.tus import Answer, Tus, id_of

_WALK = list(pairwise([PageStatus.PENDING, PageStatus.AI_QUEUED, PageStatus.AI_PROCESSING, PageStatus.AI_COMPLETED]))
_SETTINGS = {"GW_SSE_KEEPALIVE_SEC": "0.5", "PENSTOCK_SANDBOX_WORKERS": "1", "PENSTOCK_POOL_SIZE": "4"}


@contextmanager
def two_instances(postgres: EmbeddedPostgres, redis_server: EmbeddedRedis) -> Iterator[tuple[Gateway, Gateway]]:
    """One PostgreSQL, one Redis, one directory of uploads, one store, one scheduler."""
    with open_directory() as home, ExitStack() as stack:
        both = tuple(Gateway(home, postgres.url, redis_server.url, **_SETTINGS) for _ in range(2))
        for one in both:
            stack.callback(one.kill)
            one.start(wait=False)
        stack.enter_context(both[0].scheduler())
        for one in both:
            one.until_answers()
        yield both[0], both[1]


@contextmanager
def revived(*instances: Gateway) -> Iterator[None]:
    """Whichever of them is killed meanwhile is up again afterwards."""
    try:
        yield
    finally:
        dead = [one for one in instances if one.process is None or one.process.poll() is not None]
        for one in dead:
            one.start()


class Merchant:
    """Somebody who talks to whichever address they are given."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.token = token("uploader", name, seconds=600)

    def tus(self, address: str) -> Tus:
        return Tus(address, self.token)

    def call(self, address: str, method: str, path: str, **body: Any) -> Answer:
        headers = {"Content-Type": "application/json"} if body else {}
        content = json.dumps(body).encode() if body else b""
        return self.tus(address).ask(method, f"/api/v1/jobs{path}", headers, content)

    def new_job(self, address: str, upload: str) -> str:
        answer = self.call(address, "POST", "", upload_id=id_of(upload))
        assert answer.status == 201, (answer.status, answer.body)
        job_id = str(json.loads(answer.body)["job_id"])
        assert answer["Location"] == f"/api/v1/jobs/{job_id}"
        return job_id

    def cancel(self, address: str, job_id: str) -> None:
        answer = self.call(address, "POST", f"/{job_id}/cancel")
        assert (answer.status, json.loads(answer.body)["status"]) == (200, "CANCELLED")

    def follow(self, address: str, job_id: str, last: str | None = None) -> Follower:
        return Follower(address, f"/api/v1/jobs/{job_id}/events", self.token, last)

    def dashboard(self, address: str) -> Follower:
        return Follower(address, "/api/v1/dashboard/events", self.token)


class Reading:
    """The pages of a job are completed one by one, in a thread, as a worker would; `go` lets some more be."""

    def __init__(self, database_url: str, job_id: str) -> None:
        self._database_url = database_url
        self._job_id = job_id
        self._allowed = threading.Semaphore(0)
        self._over = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._allowed.release()
        self._thread.join(20)
        assert self._failure is None, self._failure

    def go(self, pages: int) -> None:
        self._allowed.release(pages)

    def _run(self) -> None:
        try:
            asyncio.run(self._read())
        except BaseException as failure:  # noqa: BLE001  it is raised where the test ends
            self._failure = failure

    async def _read(self) -> None:
        database = Database(self._database_url, name="reading", size=1)
        await database.open()
        try:
            async with database.transaction() as tx:
                query = "select id, page_number from pages where job_id = %s order by page_number"
                pages = await fetch_all(tx, query, (UUID(self._job_id),))
            for page in pages:
                self._allowed.acquire()
                if self._over:
                    return
                async with database.transaction() as tx:
                    for source, target in _WALK:
                        await move(tx, PAGE, self._step(page, source, target))
        finally:
            await database.close()

    def _step(self, page: dict[str, Any], source: PageStatus, target: PageStatus) -> Step:
        topic = f"job:{self._job_id}"
        return Step(
            str(page["id"]), source, target, by="pipeline", trigger="read",
            payload={"page_no": page["page_number"]}, topics=(topic,), order_key=topic,
        )  # fmt: skip
