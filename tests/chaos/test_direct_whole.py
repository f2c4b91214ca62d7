"""Direct uploads while server, bucket and worker are killed at line after line: in the end there is one truth.

Each role dies at every one of its lines, in an order that the seed chooses, and is started again at once. Phones go on
sending meanwhile, by the protocol's page; what is announced is looked for all the time.
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from penstock.embedded import EmbeddedPostgres, EmbeddedRedis
from tests.chaos.direct_lives import Life
from tests.support.bucket import NAME
from tests.support.direct_system import DirectSystem, running_system
from tests.support.edge import token
from tests.support.nursery import Child
from tests.support.phones import QUANTUM, PatientPhone, Recording, recorded

SEED = int(os.environ.get("SEED", "20261115"))
PHONES, LEAST = 4, 2
LIMIT = 150.0
LINES = {
    "serve": (
        "direct.announced", "direct.signed", "direct.received", "direct.finishing", "direct.video_moved",
        "direct.finished", "direct.recorded",
    ),
    "bucket": (
        "bucket.chunk_synced", "bucket.bytes_synced", "bucket.before_object", "bucket.record_written",
        "bucket.after_object", "bucket.notice_heard",
    ),
    "worker": (
        "direct.claimed", "direct.looked", "direct.probed", "direct.became", "direct.settling", "direct.settled",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def system(postgres: EmbeddedPostgres, redis_server: EmbeddedRedis) -> Iterator[DirectSystem]:
    with running_system(postgres, redis_server, DIRECT_LEASE_SECONDS="2") as running:
        yield running


class Chaos:
    """All phones and all lives, until every line has killed."""

    def __init__(self, system: DirectSystem, seed: int) -> None:
        self._system = system
        self._chance = random.Random(seed)
        self._until = time.monotonic() + LIMIT
        self._numbers = count()
        self._over = threading.Event()
        self.sent: dict[str, Recording] = {}
        starts = {"serve": self._serve, "bucket": self._bucket, "worker": self._worker}
        self.lives = [Life(name, points, starts[name], self._chance) for name, points in LINES.items()]

    def run(self) -> None:
        for process in (self._system.serve.process, self._system.bucket.process, self._system.roles["worker"]):
            assert process is not None
            process.kill()
            process.wait()
        clock = threading.Thread(target=self._hurry, daemon=True)
        for thread in (*self.lives, clock):
            thread.start()
        try:
            with ThreadPoolExecutor(PHONES) as phones:
                for each in [phones.submit(self._phone, number) for number in range(PHONES)]:
                    each.result()
        finally:
            self._over.set()
            for thread in self.lives:
                thread.end()
            clock.join(30)

    def _phone(self, number: int) -> None:
        chance = random.Random(f"{SEED}/{number}")
        address, forgets = self._system.serve.address, lambda: chance.random() < 0.5
        with PatientPhone(address, token(seconds=600), seconds=LIMIT, forgets=forgets) as phone:
            for sent in count(1):
                film = recorded(chance.randint(1, 4) * QUANTUM + chance.randint(0, 999))
                self.sent[phone.deliver(film)] = film
                if sent >= LEAST and all(life.has_died_everywhere for life in self.lives):
                    return
                assert time.monotonic() < self._until, self._told()
                if sent >= LEAST:
                    self._over.wait(0.5)  # the worker has time to look at what is on its way, not only at what is there

    def _hurry(self) -> None:
        """So that the worker looks for everything that is on its way, not only after minutes."""
        while not self._over.wait(0.3):
            self._system.hurry()

    def _serve(self, failpoint: str) -> Child:
        process = self._system.serve.start(wait=False, PENSTOCK_FAILPOINT=failpoint).process
        assert process is not None
        return process

    def _bucket(self, failpoint: str) -> Child:
        return self._system.bucket.start(wait=False, PENSTOCK_FAILPOINT=failpoint)

    def _worker(self, failpoint: str) -> Child:
        return self._system.start_role("worker", PENSTOCK_FAILPOINT=failpoint)

    def _told(self) -> str:
        return "\n".join(f"{life.name}: {life.killed}" for life in self.lives) + self._system.logs()


@pytest.mark.timeout(400)
class TestEverythingIsKilled:
    def test_and_every_film_is_there_once_and_told_once(self, system: DirectSystem):
        chaos = Chaos(system, SEED)
        chaos.run()
        assert {life.name: life.wrong for life in chaos.lives if life.wrong} == {}
        assert {life.name: len(life.killed) for life in chaos.lives} == {name: len(LINES[name]) for name in LINES}
        system.serve.until_answers(60)
        rows = {upload_id: system.until_ended(upload_id) for upload_id in chaos.sent}
        wrong = {}
        for upload_id, row in rows.items():
            told = system.told(upload_id)
            seen = (
                row["status"], row["md5_hash"], row["size_bytes"], told.count("video.upload.completed"),
                told.count("direct_upload.completed"), system.heard(row),
            )  # fmt: skip
            film = chaos.sent[upload_id]
            if seen != ("completed", film.md5, film.size, 1, 1, [row["gcs_generation"]]):
                wrong[upload_id] = (seen, told)
        assert wrong == {}
        system.until(lambda: not system.untold(), "the bucket has been heard")
        self.nothing_else_is_there(system, chaos, rows)

    def nothing_else_is_there(self, system: DirectSystem, chaos: Chaos, rows: dict) -> None:
        announced = system.serve.query("select count(*) as uploads from catalog.uploads")
        assert announced == [{"uploads": len(rows)}]
        videos = system.serve.query("select status, container, raw_file_reference from catalog.videos")
        wanted = {f"gs://{NAME}/{row['object_name']}" for row in rows.values()}
        assert sorted(video["raw_file_reference"] for video in videos) == sorted(wanted)
        assert {(video["status"], video["container"]) for video in videos} == {("processing", "mp4")}
        assert system.objects() == {rows[each]["object_name"]: film.content for each, film in chaos.sent.items()}
        assert system.serve.query("select * from catalog.dead_messages") == []
