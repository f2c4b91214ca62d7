"""What ended tasks have left goes when its time is over, and nothing else does."""

import pytest
from tests.support.edge import SECRET
from tests.support.etl import ALICE, EtlPlace, etl_place
from tests.support.pdfs import text_pages

from penstock.extraction import expiry, retry, store
from penstock.extraction.expiry import Expired, expire
from penstock.extraction.folder import Folder, Manifest, remove_generations
from penstock.extraction.states import Stage
from penstock.kernel.errors import PenstockError


@pytest.fixture
async def place(environment, tmp_path):
    environment.setenv("PENSTOCK_JWT_SECRET", SECRET)
    environment.setenv("PENSTOCK_REDIS_PREFIX", tmp_path.name)  # tasks are numbered from 1 in every test
    async with etl_place(works=False) as made:
        yield made


async def ended(place: EtlPlace, days: int) -> int:
    """A task that was read and completed so long ago; its artefacts are there."""
    task_id = await place.submit(text_pages(1))
    folder = Folder(place.parts.store, task_id, 1)
    key = folder.key("document-00000001.md")
    await place.parts.store.put(key, b"# Read")
    await place.parts.store.put(f"etl/{task_id}/memo-1/answer.json", b"{}")
    await folder.seal(Manifest(key, 1, {}, [], "local", "1", "x", {}))
    await run(
        place,
        "update etl_task set status = 'completed', phase = 'postprocess', result = '{}',"
        " finished_at = now() - make_interval(days => %s) where task_id = %s",
        days,
        task_id,
    )
    await place.parts.redis.flushdb()  # it has forgotten long ago
    return task_id


async def run(place: EtlPlace, statement: str, *values) -> None:
    async with place.parts.database.transaction() as tx:
        await tx.execute(statement, values)


async def left(place: EtlPlace, task_id: int) -> list[str]:
    return sorted([each.key async for each in place.parts.store.list(f"etl/{task_id}")])


async def code_of(place: EtlPlace, path: str) -> str:
    return (await place.http.get(f"/api/v1/etl/tasks/{path}")).json().get("code", "")


class TestWhatIsOver:
    async def test_artefacts_go_first_and_say_so_then_the_task(self, place):
        task_id = await ended(place, 31)
        assert await expire(place.parts.etl) == Expired(folders=1)
        assert await left(place, task_id) == []
        assert (await code_of(place, f"{task_id}"), await code_of(place, f"{task_id}/markdown")) == (
            "",
            "ETL_ARTEFACT_GONE",
        )
        with pytest.raises(PenstockError, match="ETL_ARTEFACT_GONE"):
            await retry.retry(place.parts.etl, task_id, Stage.POSTPROCESS, ALICE)
        await run(place, "update etl_task set finished_at = now() - interval '181 days' where task_id = %s", task_id)
        assert await expire(place.parts.etl) == Expired(tasks=1)
        assert await code_of(place, f"{task_id}") == "ETL_TASK_NOT_FOUND"
        assert await expire(place.parts.etl) == Expired()

    async def test_what_waits_and_what_may_be_retried_stays(self, place, monkeypatch):
        monkeypatch.setattr(expiry, "_AT_ONCE", 1)  # as if there were more than one batch
        recent, old, older = [await ended(place, days) for days in (29, 31, 40)]
        waiting = await place.submit(text_pages(1))
        await run(place, "update etl_task set created_at = now() - interval '1 year' where task_id = %s", waiting)
        assert await expire(place.parts.etl) == Expired(folders=2)
        assert [await left(place, each) for each in (old, older)] == [[], []]
        assert len(await left(place, recent)) == 3
        assert (await place.look(waiting)).state.status == "pending"
        assert (await retry.retry(place.parts.etl, recent, Stage.POSTPROCESS, ALICE))["status"] == "pending"

    async def test_a_round_that_was_killed_before_its_mark_is_repeated(self, place):
        task_id = await ended(place, 200)
        await remove_generations(place.parts.store, task_id, up_to=1)
        assert await expire(place.parts.etl) == Expired(folders=1, tasks=1)


class TestARetryMeanwhile:
    async def test_what_is_over_is_gone_even_if_it_is_still_there(self, place):
        task_id = await ended(place, 31)
        with pytest.raises(PenstockError, match="ETL_ARTEFACT_GONE"):
            await retry.retry(place.parts.etl, task_id, Stage.POSTPROCESS, ALICE)

    async def test_what_is_read_anew_is_not_removed_with_the_old(self, place):
        task_id = await ended(place, 31)
        async with place.parts.database.transaction() as tx:
            [found] = await store.to_clear(tx, 30, 10)
        await retry.retry(place.parts.etl, task_id, Stage.OCR, ALICE)
        await place.parts.store.put(f"etl/{task_id}/2/pages/00000002-000001.json", b"[]")
        await remove_generations(place.parts.store, task_id, up_to=found["generation"])
        async with place.parts.database.transaction() as tx:
            await store.mark_cleared(tx, task_id, found["generation"])
            row = await store.find(tx, task_id)
        assert await left(place, task_id) == [f"etl/{task_id}/2/pages/00000002-000001.json"]
        assert row is not None
        assert (row["status"], row["cleared_at"]) == ("pending", None)
        assert await expire(place.parts.etl) == Expired()
