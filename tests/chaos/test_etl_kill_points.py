"""A process killed exactly between two lines of ETL, or stopped there: what is lost, what is repeated?

All deaths happen first, each over a task of its own; then one worker ends everything, and each is looked at.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.extraction.states import Stage
from penstock.extraction.submit import Submission, submit
from tests.chaos.etl_stage import EtlStage
from tests.chaos.etl_theatre import TOTAL, Scene, Theatre, opened_theatre
from tests.standins.openai_like import Asked, completion, http, says
from tests.support.etl import ALICE
from tests.support.pdfs import text_pages

# Where a worker dies → how many lost workers the task has seen. The dead held the task, or not yet, or not any more.
KILLS = {
    "etl.ocr_taken": 0,
    "etl.ocr_claimed": 1,
    "mineru.submitted": 1,
    "etl.remembered": 1,
    "mineru.remembered": 1,
    "mineru.delivered": 1,
    "mineru.parsed": 1,
    "mineru.fetched": 1,
    "mineru.page_stored": 1,
    "etl.pages_stored": 1,
    "etl.read": 1,
    "etl.markdown_stored": 1,
    "etl.sealed": 1,
    "etl.advancing": 1,
    "etl.advanced": 0,
    "etl.postprocess_taken": 0,
    "etl.postprocess_claimed": 1,
    "etl.processed": 1,
    "etl.result_stored": 1,
    "etl.ending": 1,
    "etl.ended": 0,
}
SUBMITTED_TWICE = {"mineru.submitted"}  # an errand that nobody sends a file to starts nothing


@pytest.fixture(scope="module")
def theatre(module_home: Path) -> Iterator[Theatre]:
    yield from opened_theatre(module_home)


@pytest.mark.timeout(240)
class TestAWorkerKilledAt:
    def test_any_line_the_result_is_the_same_and_nothing_is_paid_for_twice(self, theatre: Theatre):
        scenes = theatre.killed_at(*KILLS)
        tasks = [scene.task_id for scene in scenes.values()]
        theatre.stage.bury(*tasks)
        theatre.stage.wait_until_ended(tasks)
        wrong = {}
        for point, scene in scenes.items():
            try:
                theatre.judge(scene)
                assert theatre.stage.row(scene.task_id)["lost_workers"] == KILLS[point]
                assert theatre.read(scene)["submitted"] == 1 + (point in SUBMITTED_TWICE)
            except AssertionError as failure:
                wrong[point] = str(failure)
        assert wrong == {}

    def test_a_page_the_pages_before_it_are_not_read_again(self, theatre: Theatre):
        """Text pages are stored by the 64: the first are there when it dies."""
        stage, data = theatre.stage, text_pages(80, 2)
        whole, cut = stage.submit(data, "whole.pdf"), stage.submit(data, "cut.pdf", stage.desk("local"))
        stage.expect_killed(stage.worker("victim-local", "local", "etl.pages_stored=kill"))
        stage.bury(cut)
        rows = stage.wait_until_ended([whole, cut])
        assert stage.outcome(rows[cut]) == stage.outcome(rows[whole])
        assert [rows[each]["metadata"]["ocr"]["pages_resumed"] for each in (whole, cut)] == [0, 64]

    def test_a_question_the_answers_before_it_are_not_asked_for_again(self, theatre: Theatre):
        """The model's stand-in kills who asks the sixth question, before it answers."""
        stage = theatre.stage
        rule = stage.rule(
            name="parts", postprocess_mode="llm", postprocess_strategy="chunked-extract", json_schema=TOTAL
        )
        task = stage.submit(text_pages(10, 12), "parts.pdf", stage.desk("parts"), rule_id=rule)
        asked: list[str] = []
        victim: list[Any] = []

        async def answer(question: Asked, _writer: Any) -> bytes:
            asked.append(question.texts[-1])
            if len(asked) == 6:
                os.kill(victim[0].pid, signal.SIGKILL)
            return http(200, completion({"total": 4}))

        stage.model.script[:] = [answer]
        try:
            victim.append(stage.worker("victim-parts", "parts"))
            stage.expect_killed(victim[0])
            remembered = sum("/memo" in name for name in stage.files(task))
            before = len(asked)
            stage.bury(task)
            row = stage.wait_until_ended([task])[task]
        finally:
            stage.model.script[:] = [says({"total": 4})]
        facts = row["metadata"]["postprocess"]
        assert stage.outcome(row)["data"] == {"total": 4}
        assert 2 <= remembered < 6 < facts["chunks"]
        assert (facts["remembered"], facts["asked"]) == (remembered, facts["chunks"] - remembered)
        assert len(asked) == before + facts["chunks"] - remembered


@pytest.mark.timeout(120)
class TestAWorkerKilledBeforeItHasTheTask:
    @pytest.mark.parametrize("point", ["etl.ocr_taken", "etl.postprocess_taken"])
    def test_the_wake_up_that_died_with_it_stands_in_nobodys_way(self, theatre: Theatre, point: str):
        """The queue would keep it for as long as a stage may last."""
        [scene] = theatre.killed_at(point).values()
        theatre.start(scene)
        theatre.stage.wait_until_ended([scene.task_id], 30, queue=scene.queue)
        theatre.stage.dismiss(scene.victim)
        theatre.judge(scene)


@pytest.mark.timeout(120)
class TestWhoeverSubmitsKilledAt:
    POINTS = ("etl.placed", "etl.inserted", "etl.enqueued")

    def test_any_line_there_is_one_task_for_a_key_or_none_and_it_ends(self, theatre: Theatre):
        stage = theatre.stage
        keys = {point: stage.place(theatre.picture(), f"{point}.png") for point in self.POINTS}
        dying = [
            stage.process(
                f"submits-{point}", ETL_SUBMITS=key, ETL_KEY=point, PENSTOCK_FAILPOINT=f"{point}=kill",
                ETL_PROVIDER="mineru",
            )
            for point, key in keys.items()
        ]  # fmt: skip
        for process in dying:
            stage.expect_killed(process)
        begun = self.tasks(stage)
        assert sorted(begun) == sorted(self.POINTS[1:])
        stage.wait_until_ended(begun.values())  # nobody has asked again
        again = {
            point: stage.do(submit(theatre.desk("etl"), Submission(ALICE, object_key=key, idempotency_key=point)))
            for point, key in keys.items()
        }
        assert {point: again[point]["task_id"] for point in begun} == begun
        rows = stage.wait_until_ended(row["task_id"] for row in again.values())
        assert {row["status"] for row in rows.values()} == {"completed"}
        assert len(self.tasks(stage)) == len(rows) == len(self.POINTS)

    def tasks(self, stage: EtlStage) -> dict[str, int]:
        found = stage.query("select idempotency_key, task_id from etl_task where idempotency_key is not null")
        assert len(found) == len({key for key, _ in found})
        return dict(found)


@pytest.mark.timeout(120)
class TestAWorkerThatIsPaused:
    """SIGSTOP beyond its lease: to others it is dead, to itself no time has passed."""

    def test_it_writes_nothing_over_its_successor(self, theatre: Theatre):
        """Before the markdown, before the result, and within the transaction that ends the task."""
        scenes = theatre.stopped_at("etl.read", "etl.processed", "etl.ending")
        tasks = [scene.task_id for scene in scenes.values()]
        theatre.stage.bury(*tasks)
        theatre.stage.wait_until_ended(tasks)
        before = {point: theatre.seen(scene) for point, scene in scenes.items()}
        theatre.wake(*scenes.values())
        for point, scene in scenes.items():
            self.expect_unspoilt(theatre, scene, before[point])
            theatre.judge(scene)

    def test_a_cancellation_that_came_meanwhile_stays(self, theatre: Theatre):
        [scene] = theatre.stopped_at("etl.ocr_taken").values()
        theatre.stage.cancel(scene.task_id)
        before = theatre.seen(scene)
        theatre.wake(scene)
        self.expect_unspoilt(theatre, scene, before)
        assert theatre.stage.look(scene.task_id).status == "cancelled"
        assert theatre.read(scene)["submitted"] == 0

    def test_a_retry_that_came_meanwhile_goes_on(self, theatre: Theatre):
        stage = theatre.stage
        [scene] = theatre.stopped_at("etl.read").values()
        stage.bury(scene.task_id)
        failed = stage.wait_until_ended([scene.task_id], max_lost_workers=1)[scene.task_id]
        assert (failed["status"], failed["error"]["code"]) == ("failed", "ETL_WORKERS_LOST")
        stage.retry(scene.task_id, Stage.OCR)
        row = stage.wait_until_ended([scene.task_id])[scene.task_id]
        before = theatre.seen(scene)
        theatre.wake(scene)
        self.expect_unspoilt(theatre, scene, before)
        assert (row["status"], row["generation"], row["ocr_generation"]) == ("completed", 2, 2)
        assert theatre.ends(scene) == (["failed", "completed"], 1)

    def expect_unspoilt(self, theatre: Theatre, scene: Scene, before: tuple[Any, ...]) -> None:
        """It may write files of its own, which nobody looks for."""
        row, files, state = theatre.seen(scene)
        assert (row, state) == (before[0], before[2])
        assert {name: files.get(name) for name in before[1]} == before[1]


@pytest.mark.timeout(120)
class TestADocumentThatKillsWhoeverReadsIt:
    def test_it_fails_after_as_many_workers_as_are_allowed(self, theatre: Theatre):
        stage, scene = theatre.stage, theatre.prepare()
        for lost in range(3):
            assert stage.row(scene.task_id)["lost_workers"] == lost
            stage.expect_killed(theatre.start(scene, "etl.ocr_claimed=kill"))
            stage.bury(scene.task_id)
            stage.sweep(scene.queue, max_lost_workers=3)
        row = stage.row(scene.task_id)
        assert (row["status"], row["error"]["code"], row["error"]["stage"]) == ("failed", "ETL_WORKERS_LOST", "ocr")
        assert row["lost_workers"] == 3
        assert stage.look(scene.task_id).status == "failed"
        assert theatre.ends(scene) == (["failed"], 0)
