"""Servers that vanish under ETL, services that hang, workers that are told to go."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.etl_theatre import Scene, Theatre, opened_theatre
from tests.chaos.etl_watcher import Watcher
from tests.standins.mineru import Mineru

STOPS = ("etl.ocr_claimed", "etl.read", "etl.sealed", "etl.advanced", "etl.postprocess_claimed", "etl.processed")
SLOW = "PostgreSQL dies"  # it takes long to start: half of the places
TROUBLES = {
    "Redis is emptied": lambda stage: stage.flush_redis(),
    "Redis dies and has lost everything": lambda stage: stage.crash_redis(empty=True),
    SLOW: lambda stage: stage.crash_postgres(),
}


@pytest.fixture(scope="module")
def theatre(module_home: Path) -> Iterator[Theatre]:
    yield from opened_theatre(module_home)


@pytest.mark.timeout(180)
class TestInTheMiddleOfEachStage:
    """One worker, held at each of these places until the trouble is over."""

    @pytest.mark.parametrize("trouble", TROUBLES)
    def test_the_result_is_the_same_and_the_state_never_goes_back(self, theatre: Theatre, trouble: str):
        stage, scene = theatre.stage, theatre.prepare()
        with Watcher(stage, scene.task_id) as watcher:
            stops = STOPS[1::2] if trouble == SLOW else STOPS
            worker = theatre.start(scene, ",".join(f"{point}=stop" for point in stops))
            for _ in stops:
                stage.await_stop(worker, sweeping=scene.queue)
                TROUBLES[trouble](stage)
                stage.wait_for(lambda before=watcher.looks: watcher.looks > before, 30, "somebody looked")
                stage.resume(scene.victim)
            stage.wait_until_ended([scene.task_id], queue=scene.queue)
            stage.wait_for(lambda: "completed" in watcher.seen[scene.task_id], 30, "its end is seen")
        stage.dismiss(scene.victim)
        assert watcher.seen[scene.task_id][-3:] == ["mineru_parsing", "llm_processing", "completed"]
        theatre.judge(scene)
        assert stage.row(scene.task_id)["lost_workers"] == 0

    def test_postgresql_dies_within_the_transaction_that_ends_a_task(self, theatre: Theatre):
        stage = theatre.stage
        [scene] = theatre.stopped_at("etl.ending").values()
        stage.crash_postgres()
        stage.resume(scene.victim)
        stage.wait_until_ended([scene.task_id], queue=scene.queue)
        stage.dismiss(scene.victim)
        theatre.judge(scene)
        assert stage.row(scene.task_id)["lost_workers"] == 0


@pytest.fixture
def other(theatre: Theatre) -> Iterator[Mineru]:
    """A second service, which a test may spoil."""
    service = Mineru("hosted")
    running = service.running()
    yield theatre.stage.do(running.__aenter__())
    theatre.stage.do(running.__aexit__(None, None, None))


def start(theatre: Theatre, scene: Scene, service: Mineru, **environment: str) -> None:
    theatre.start(scene, PENSTOCK_MINERU_BASE_URL=service.base_url, ETL_OCR_MAX_ATTEMPTS="2", **environment)


@pytest.mark.timeout(120)
class TestAServiceThatHangs:
    def test_without_an_answer_the_stage_is_ended_tried_again_and_failed(self, theatre: Theatre, other: Mineru):
        stage, scene = theatre.stage, theatre.prepare()
        other.behave(delay=60.0)
        start(theatre, scene, other, ETL_TASK_TIMEOUT="0.5")
        row = stage.wait_until_ended([scene.task_id], queue=scene.queue)[scene.task_id]
        stage.dismiss(scene.victim)
        assert (row["status"], row["phase"], row["ocr_attempts"]) == ("failed", "ocr", 2)
        error = row["error"]
        assert (error["code"], error["stage"], error["attempts"]) == ("ETL_STAGE_TIMEOUT", "ocr", 2)
        assert stage.look(scene.task_id).status == "failed"

    def test_one_that_is_at_work_for_ever_is_given_up_and_was_given_the_file_once(
        self, theatre: Theatre, other: Mineru
    ):
        stage, scene = theatre.stage, theatre.prepare()
        other.behave(states=["running"])
        start(theatre, scene, other, PENSTOCK_MINERU_POLL_LIMIT_SECONDS="0.3")
        row = stage.wait_until_ended([scene.task_id], queue=scene.queue)[scene.task_id]
        stage.dismiss(scene.victim)
        assert (row["status"], row["error"]["code"], row["error"]["stage"]) == ("failed", "OCR_UNAVAILABLE", "ocr")
        assert (row["ocr_attempts"], other.calls["submit"], other.calls["upload"]) == (2, 1, 1)


@pytest.mark.timeout(120)
class TestRedisGoneForAMoment:
    def test_what_was_begun_goes_on_and_is_not_begun_again(self, theatre: Theatre):
        """A 2.x server reads while the connection is open: whoever hangs up has to send the file again."""
        stage, scene, service = theatre.stage, theatre.prepare(), Mineru("v2")
        running = service.running()
        stage.do(running.__aenter__())
        try:
            service.behave(delay=1.5)
            start(theatre, scene, service)
            stage.wait_for(lambda: service.calls["submit"] > 0, 30, "it is being read")
            stage.crash_redis()
            stage.wait_until_ended([scene.task_id], queue=scene.queue)
            stage.dismiss(scene.victim)
        finally:
            stage.do(running.__aexit__(None, None, None))
        row = stage.row(scene.task_id)
        assert (row["status"], row["lost_workers"], row["ocr_attempts"]) == ("completed", 0, 0)
        assert service.calls["submit"] == 1


@pytest.mark.timeout(120)
class TestAWorkerThatIsToldToStop:
    def test_it_gives_its_task_to_another_at_once(self, theatre: Theatre, other: Mineru):
        stage, scene = theatre.stage, theatre.prepare()
        other.behave(states=["running"])
        start(theatre, scene, other, PENSTOCK_SHUTDOWN_SECONDS="1")
        stage.wait_for(lambda: other.calls["look"] >= 2, 30, "it waits for the service")
        stage.dismiss(scene.victim)
        row = stage.row(scene.task_id)
        assert (row["status"], row["lease_owner"]) == ("pending", None)
        assert (row["lost_workers"], row["ocr_attempts"]) == (0, 0)
        other.behave(states=[])
        start(theatre, scene, other)  # woken without a sweep
        stage.wait_for(lambda: stage.row(scene.task_id)["status"] != "pending", 30, "another has ended it")
        stage.dismiss(scene.victim)
        assert stage.outcome(stage.row(scene.task_id)) == theatre.expected
        assert (other.calls["submit"], other.calls["upload"]) == (1, 1)
