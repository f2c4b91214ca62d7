"""An attempt that is killed anywhere is gone on with: nothing is submitted twice, and the pages are the same."""

import asyncio
import json
import signal
import sys

import httpx
import pytest
from tests.integration.extraction.mineru.conftest import document_of, provider_at
from tests.standins.mineru import Mineru
from tests.support.notebooks import opened
from tests.support.programs import ROOT, environment

PAGES = 3  # two parts, for the hosted service

# family, where it is killed → what was asked of the service in all: submitted, uploaded
POINTS = {
    ("hosted", "mineru.submitted=kill"): (3, 2),  # a batch nobody uploads to starts nothing
    ("hosted", "mineru.remembered=kill"): (2, 2),
    ("hosted", "mineru.page_stored=kill@3"): (2, 2),
    ("v3", "mineru.fetched=kill"): (1, 0),
    ("v4", "mineru.parsed=kill"): (1, 0),
    ("v4", "mineru.page_stored=kill@2"): (1, 0),
}


async def killed_at(point: str, service: Mineru, folder) -> None:
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.mineru_reading", service.base_url, str(folder), str(PAGES),
        env=environment(PENSTOCK_FAILPOINT=point), cwd=ROOT, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert await asyncio.wait_for(program.wait(), 60) == -signal.SIGKILL


class TestKilled:
    @pytest.mark.parametrize(("family", "point"), POINTS)
    async def test_the_next_attempt_goes_on(self, family, point, tmp_path):
        untouched = await opened(tmp_path / "untouched")
        document = document_of(tmp_path / "document", PAGES)
        async with Mineru(family).running() as service, provider_at(service.base_url, pages_per_part=2) as provider:
            expected = await provider.read(document, untouched)
            service.calls.clear()
            await killed_at(point, service, tmp_path)
            resumed = await opened(tmp_path / "notebook")
            reading = await provider.read(document, resumed)
        assert (service.calls["submit"], service.calls["upload"]) == POINTS[family, point]
        assert reading.markdown == expected.markdown
        assert await resumed.pages() == await untouched.pages()


class TestLaterAttempts:
    async def test_one_that_gave_up_waiting_is_followed_by_one_that_waits_on(self, queueing, document, notebook):
        states = {"hosted": ["pending"], "v3": ["processing"], "v4": ["running"]}[queueing.family]
        queueing.behave(states=states)
        async with provider_at(queueing.base_url, poll_limit_seconds="0.05") as provider:
            with pytest.raises(Exception, match="NOT_DONE_YET") as refusal:
                await provider.read(document, notebook)
            assert refusal.value.code.retryable
            queueing.behave(states=[])
            assert (await provider.read(document, notebook)).page_count == 2
        assert queueing.calls["submit"] == 1

    async def test_one_whose_pages_are_all_stored_reads_nothing_anew(self, queueing, document, notebook):
        async with provider_at(queueing.base_url) as provider:
            first = await provider.read(document, notebook)
            second = await provider.read(document, notebook)
        assert queueing.calls["submit"] == 1
        assert (second.markdown, second.provider_task_id) == (first.markdown, first.provider_task_id)

    async def test_a_2x_server_knows_no_tasks_and_is_asked_again(self, document, notebook):
        async with Mineru("v2").running() as service, provider_at(service.base_url) as provider:
            await provider.read(document, notebook)
            await provider.read(document, notebook)
        assert service.calls["submit"] == 2


class TestTheStandIn:
    async def test_it_tells_other_processes_what_it_was_asked_and_does_as_they_say(self):
        program = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.standins.mineru", "hosted",
            env=environment(), cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            told = json.loads(await asyncio.wait_for(program.stdout.readline(), 60))
            root = told["base_url"].removesuffix("/api/v4")
            async with httpx.AsyncClient(
                trust_env=False, headers={"Authorization": f"Bearer {told['token']}"}
            ) as client:
                await client.post(f"{root}/_behave", json={"faults": {"submit": [-60009]}})
                answer = await client.post(f"{told['base_url']}/file-urls/batch", json={"files": []})
                assert answer.json()["code"] == -60009
                assert (await client.get(f"{root}/_calls")).json() == {"submit": 1}
        finally:
            program.kill()
            await program.communicate()
