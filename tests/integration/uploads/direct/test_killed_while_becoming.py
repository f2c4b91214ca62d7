"""Killed while a complete upload becomes what it is for: one job, one verdict, whatever was interrupted."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support import nursery, programs
from tests.support.arriving import PDF, arrived
from tests.support.films import Film
from tests.support.jobs import pdf
from tests.support.shelf import ShelfBucket

from penstock.bootstrap import load_settings, started
from penstock.kernel.clock import SystemClock
from penstock.kernel.db import fetch_all
from penstock.kernel.identity import Caller, Role
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.settings import DirectSettings
from penstock.uploads.tus import Expiry

PHONE = Caller("alice", "m-1", Role.UPLOADER)


@dataclass
class Scene:
    parts: object
    env: dict[str, str]
    log: Path

    def direct(self) -> DirectDesk:
        settings = DirectSettings(bucket_url="gs://shelf")
        return DirectDesk(self.parts.database, ShelfBucket(), settings, SystemClock(), self.parts.queue)

    def become(self, row: dict, file: Path, failpoint: str = "") -> int:
        wish = {"BECOMING_UPLOAD": str(row["upload_id"]), "BECOMING_FILE": str(file), "PENSTOCK_FAILPOINT": failpoint}
        return nursery.start("tests.support.becoming", log=self.log, env=self.env | wish).wait()

    async def rows(self, query: str, *values) -> list[dict]:
        async with self.parts.database.transaction() as tx:
            return await fetch_all(tx, query, values)

    async def is_swept(self) -> None:
        """An hour later nothing is left of what was fetched."""
        directory = self.parts.uploads.directory
        for left in directory.iterdir():
            os.utime(left, (0, 0))
        await Expiry(self.parts.database, self.parts.uploads).sweep()
        assert list(directory.iterdir()) == []


@pytest.fixture
async def scene(environment, tmp_path):
    environment.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    environment.setenv("GW_ADMISSION_LEASE_SEC", "1")
    environment.setenv("PENSTOCK_SANDBOX_WORKERS", "1")
    given = {name: value for name, value in os.environ.items() if name.startswith(("PENSTOCK_", "GW_"))}
    env = programs.environment() | given
    async with started(load_settings(), role="scheduler") as parts:
        yield Scene(parts, env, tmp_path / "log")


class TestPdfs:
    POINTS = (
        "direct.fetched", "upload.placed", "direct.taken_in", "admission.placed", "direct.admitted", "direct.noted",
    )  # fmt: skip

    async def test_at_one_step_after_the_other_and_there_is_one_job_at_last(self, scene, tmp_path):
        file = tmp_path / "sent.pdf"
        file.write_bytes(pdf("one", "two"))
        row = await arrived(scene.direct(), PHONE, file.read_bytes(), PDF, "spring.pdf")
        seen = []
        for point in self.POINTS:
            assert scene.become(row, file, f"{point}=kill") == -signal.SIGKILL, point
            [counts] = await scene.rows(
                "select (select count(*) from tus_uploads) as uploads, (select count(*) from pdf_jobs) as jobs,"
                " (select count(*) from catalog.uploads where job_id is not null) as noted"
            )
            seen.append(tuple(counts.values()))
        assert seen == [(0, 0, 0), (0, 0, 0), (1, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)]
        assert scene.become(row, file) == 0, scene.log.read_text()
        await self._is_one(scene, "UPLOADED", None)
        assert len(await scene.rows("select 1 from pages")) == 2

    async def test_while_a_refused_file_is_noted(self, scene, tmp_path):
        file = tmp_path / "sent.pdf"
        file.write_bytes(b"no PDF")
        row = await arrived(scene.direct(), PHONE, file.read_bytes(), PDF, "spring.pdf")
        assert scene.become(row, file, "direct.admitted=kill") == -signal.SIGKILL
        assert scene.become(row, file) == 0, scene.log.read_text()
        await self._is_one(scene, "REJECTED", "INVALID_MIME")

    async def _is_one(self, scene, status, code):
        [job] = await scene.rows("select job_id, status from pdf_jobs")
        [noted] = await scene.rows("select job_id, error_code from catalog.uploads")
        assert (job["status"], noted) == (status, {"job_id": job["job_id"], "error_code": code})
        [upload] = await scene.rows("select status, job_id from tus_uploads")
        assert upload == {"status": "ADMITTED", "job_id": job["job_id"]}
        entered = await scene.rows("select 1 from outbox_events where event_type = %s", f"job.{status.lower()}")
        assert len(entered) == 1
        await scene.is_swept()


class TestVideos:
    async def test_between_the_look_and_the_verdict(self, scene, tmp_path):
        file = tmp_path / "sent.mp4"
        file.write_bytes(Film(301).mp4())
        row = await arrived(scene.direct(), PHONE, file.read_bytes())
        assert scene.become(row, file, "direct.probed=kill") == -signal.SIGKILL
        [video] = await scene.rows("select status, duration_seconds from catalog.videos")
        assert video == {"status": "processing", "duration_seconds": None}
        assert scene.become(row, file) == 0, scene.log.read_text()
        [video] = await scene.rows("select status, error_code from catalog.videos")
        assert video == {"status": "failed", "error_code": "VIDEO_TOO_LONG"}
        assert len(await scene.rows("select 1 from outbox_events where event_type = 'video.failed'")) == 1
        await scene.is_swept()
