"""Run states in a real Redis: whatever comes in whatever order, a task never moves back."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.extraction.runstate import RunState, RunStates
from penstock.extraction.settings import EtlSettings
from penstock.extraction.states import RunStatus, Stage
from penstock.kernel.clock import SystemClock
from penstock.kernel.redis import Keys, connect

_ORDER = list(RunStatus)[:3]
_FIRST = RunState(1, 1, 0, RunStatus.PENDING, Stage.OCR, 0, {"merchant_id": "m-1"})


@pytest.fixture
def states(redis_client, keys) -> RunStates:
    return RunStates(redis_client, keys, EtlSettings(), SystemClock())


def rank(state: RunState) -> int:
    return _ORDER.index(state.status) if state.status in _ORDER else 3


def written() -> st.SearchStrategy[RunState]:
    return st.builds(
        lambda generation, token, status, progress: RunState(1, generation, token, status, Stage.OCR, progress),
        st.integers(1, 3), st.integers(0, 4), st.sampled_from(RunStatus), st.integers(0, 100),
    )  # fmt: skip


class TestNeverBack:
    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
    @given(writes=st.lists(written(), min_size=1, max_size=12))
    def test_the_state_only_ever_grows(self, loop: asyncio.AbstractEventLoop, states, redis_client, writes):
        async def go() -> None:
            await redis_client.flushdb()
            seen = None
            for each in writes:
                took = await states.write(each)
                now = await states.read(1)
                assert now is not None
                if seen is not None:
                    assert (now.generation, rank(now)) >= (seen.generation, rank(seen))
                    if now.generation == seen.generation:
                        assert now.token >= seen.token
                        assert now.progress >= seen.progress or rank(now) > rank(seen)
                    if not took:
                        assert now == seen
                seen = now

        loop.run_until_complete(go())

    async def test_a_late_worker_cannot_overwrite_a_cancellation(self, states):
        await states.write(_FIRST)
        await states.write(replace(_FIRST, status=RunStatus.CANCELLED))
        assert not await states.write(replace(_FIRST, status=RunStatus.MINERU_PARSING, progress=10))
        assert (await states.read(1)).status is RunStatus.CANCELLED

    async def test_a_worker_whose_lease_was_taken_over_cannot_write(self, states):
        await states.write(replace(_FIRST, token=2, status=RunStatus.MINERU_PARSING, progress=10))
        assert not await states.write(replace(_FIRST, token=1, status=RunStatus.LLM_PROCESSING, progress=90))
        assert (await states.read(1)).status is RunStatus.MINERU_PARSING

    async def test_a_retry_begins_anew_and_forgets_what_was_said_before(self, states):
        await states.write(replace(_FIRST, token=3, status=RunStatus.FAILED, facts={"error": {"code": "X"}}))
        assert await states.write(replace(_FIRST, generation=2, token=4))
        now = await states.read(1)
        assert (now.status, now.progress, now.facts) == (RunStatus.PENDING, 0, {"merchant_id": "m-1"})


class TestForgetting:
    async def test_a_running_task_is_remembered_longer_than_one_that_ended(self, redis_client, keys):
        chosen = EtlSettings(state_ttl_seconds=timedelta(minutes=5), ended_ttl_seconds=timedelta(minutes=1))
        states = RunStates(redis_client, keys, chosen, SystemClock())
        key = keys.etl_task("etl:", 1)
        await states.write(_FIRST)
        assert 60_000 < await redis_client.pttl(key) <= 300_000
        await states.write(replace(_FIRST, status=RunStatus.COMPLETED, progress=100))
        assert 0 < await redis_client.pttl(key) <= 60_000

    async def test_the_key_is_the_documented_one(self):
        assert Keys("penstock").etl_task("etl:", 7) == "penstock:etl:task:{7}"

    async def test_facts_are_not_noted_of_a_task_that_is_forgotten(self, states, redis_client, keys):
        await states.note(9, job_id="x")
        assert not await redis_client.exists(keys.etl_task("etl:", 9))


class TestRedisAway:
    async def test_reads_and_writes_say_so_and_raise_nothing(self, keys):
        away = connect("redis://127.0.0.1:1/0", timeout_seconds=0.2)
        states = RunStates(away, keys, EtlSettings(), SystemClock())
        assert not await states.write(_FIRST)
        assert await states.read(1) is None
        await states.note(1, job_id="x")
        await away.aclose()
