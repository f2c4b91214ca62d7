"""Killed between any two steps of an admission: no job without its file, no file without a job, and one job at last."""

import os
import signal
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import pytest
from tests.support import nursery, programs
from tests.support.jobs import finished_upload, pdf

from penstock import documents
from penstock.bootstrap import load_settings, started
from penstock.kernel.db import fetch_all
from penstock.kernel.identity import Caller, Role
from penstock.kernel.outbox import stored

POINTS = ["claimed", "inspected", "placed", "written", "committed"]


@dataclass
class Scene:
    parts: object
    env: dict[str, str]
    log: Path

    def run(self, *deed: str, failpoint: str = "") -> tuple[int, str]:
        given = self.env | {"PENSTOCK_FAILPOINT": failpoint}
        self.log.unlink(missing_ok=True)
        program = nursery.start("tests.support.admitting", *deed, log=self.log, env=given)
        return program.wait(60), self.log.read_text()

    def admit(self, upload: str) -> str:
        code, output = self.run("admit", upload)
        assert code == 0
        [line] = [line for line in output.splitlines() if line.split()[0].isupper()]
        return line

    async def rows(self, query: str, *values) -> list[dict]:
        async with self.parts.database.transaction() as tx:
            return await fetch_all(tx, query, values)

    async def sweep(self) -> None:
        """As it runs an hour later."""
        await self.rows(
            "update job_admissions set created_at = created_at - interval '2 h',"
            " leased_until = leased_until - interval '2 h' returning 1"
        )
        await documents.sweep_admissions(self.parts.desk)

    async def files(self) -> set[str]:
        return {found.key async for found in self.parts.store.list()}

    async def due(self) -> set[str]:
        """What jobs say they have."""
        return {row["source_key"] for row in await self.rows("select source_key from pdf_jobs where source_key <> ''")}


@pytest.fixture
async def scene(environment_of_roles: dict[str, str], tmp_path: Path):
    async with started(load_settings(), role="scheduler") as parts:
        yield Scene(parts, environment_of_roles, tmp_path / "admitting.log")


@pytest.fixture
def environment_of_roles(environment: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    environment.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    environment.setenv("GW_ADMISSION_LEASE_SEC", "1")
    given = {name: value for name, value in os.environ.items() if name.startswith(("PENSTOCK_", "GW_"))}
    return programs.environment() | given


class TestKilled:
    @pytest.mark.parametrize("sweep_first", [True, False], ids=["swept, then retried", "retried, then swept"])
    @pytest.mark.parametrize("point", POINTS)
    async def test_while_admitting(self, scene, point, sweep_first):
        upload = await finished_upload(scene.parts.database, scene.parts.desk.uploads, pdf("one", "two"))
        code, _ = scene.run("admit", upload, failpoint=f"admission.{point}=kill")
        assert code == -signal.SIGKILL
        assert await scene.due() <= await scene.files(), "a job without its file"
        if sweep_first:
            await scene.sweep()
            assert await scene.files() == await scene.due(), "a file without its job"
        answer = scene.admit(upload)
        await scene.sweep()
        [job] = await scene.rows("select job_id, source_key, status from pdf_jobs")
        assert answer == f"CREATED {job['job_id']}"
        assert await scene.files() == {job["source_key"]}
        [pages] = await scene.rows("select count(*) as n from pages")
        assert pages["n"] == 2
        [key] = await scene.rows("select job_id from idempotency_keys")
        assert key["job_id"] == job["job_id"]
        entered = await scene.rows("select 1 from outbox_events where event_type = 'job.uploaded'")
        assert len(entered) == 1

    async def test_while_refusing(self, scene):
        upload = await finished_upload(scene.parts.database, scene.parts.desk.uploads, b"no PDF")
        code, _ = scene.run("admit", upload, failpoint="admission.rejected=kill")
        assert code == -signal.SIGKILL
        assert await scene.rows("select 1 from pdf_jobs") == []
        answer = scene.admit(upload)
        [job] = await scene.rows("select job_id, status from pdf_jobs")
        assert (answer, job["status"]) == (f"INVALID_MIME {job['job_id']}", "REJECTED")

    async def test_while_removing_the_files_of_a_cancelled_job(self, scene):
        upload = await finished_upload(scene.parts.database, scene.parts.desk.uploads, pdf("one"))
        job_id = UUID(scene.admit(upload).split()[1])
        async with scene.parts.database.transaction() as tx:
            await documents.cancel(tx, job_id, Caller("alice", "m-1", Role.UPLOADER))
        [event] = await scene.rows("select * from outbox_events where event_type = 'job.cancelled'")
        [reaction] = documents.reactions(scene.parts.settings.documents)
        async with scene.parts.database.transaction() as tx:
            await reaction.handle(tx, stored(event))
        code, _ = scene.run("remove", failpoint="removal.emptied=kill")
        assert code == -signal.SIGKILL
        assert scene.run("remove")[0] == 0
        assert await scene.files() == set()
        [job] = await scene.rows("select source_key, status from pdf_jobs")
        assert job == {"source_key": None, "status": "CANCELLED"}
        assert await scene.rows("select 1 from job_file_removals") == []
