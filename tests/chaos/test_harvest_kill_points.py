"""An executor killed exactly between two lines of a harvest, or stopped there: what is lost, what is repeated?

All deaths happen first, each on a source of its own; then one executor finishes everything, and each is looked at.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.harvest_sources import Harbour
from tests.chaos.harvest_stage import HarvestStage
from tests.chaos.harvest_theatre import Scene, Theatre
from tests.standins import Faults

# Which answers are fetched again: those whose transaction had not ended.
LOST = {"harvest.fetched": 1, "harvest.batch_written": 1, "harvest.batch_stored": 1, "harvest.batch_committed": 0}
KILLS = [
    ("token", "harvest.fetched", 1),
    ("token", "harvest.fetched", 6),  # the last of the first window
    ("token", "harvest.batch_written", 3),
    ("token", "harvest.batch_stored", 6),
    ("token", "harvest.batch_committed", 6),
    ("offset", "harvest.fetched", 4),
    ("offset", "harvest.batch_written", 1),
    ("offset", "harvest.batch_stored", 3),
    ("pubmed", "harvest.fetched", 2),  # the first details
    ("pubmed", "harvest.batch_written", 4),
    ("pubmed", "harvest.batch_stored", 6),
    ("pubmed", "harvest.batch_committed", 1),  # ids are known, their details are not
    ("pubmed", "harvest.batch_committed", 3),
]
CUTS = [("ceiling", "harvest.cut", 2), ("ceiling", "harvest.fetched", 5)]
AT_ONCE = 4


@pytest.fixture(scope="module")
def theatre(module_home: Path) -> Iterator[Theatre]:
    stage = HarvestStage(module_home)
    stage.open()
    try:
        with Harbour() as harbour:
            yield Theatre(stage, harbour)
    finally:
        stage.close()


def kill_everywhere(theatre: Theatre) -> None:
    """Nobody is there to take over before all are dead; then one ends everything."""
    everything = [*KILLS, *CUTS]
    for at in range(0, len(everything), AT_ONCE):
        scenes = {each: theatre.prepare(each, each[0]) for each in everything[at : at + AT_ONCE]}
        dying = [theatre.start(scene, f"{point}=kill@{times}") for (_, point, times), scene in scenes.items()]
        for process in dying:
            theatre.expect_killed(process)
    sources = [theatre.scenes[each].source for each in everything]
    theatre.stage.bury(*sources)
    theatre.stage.executor("finisher", *sources)
    theatre.stage.wait_until_drained(60, *sources)


def check_pages(theatre: Theatre, scene: Scene, point: str, times: int) -> None:
    """One page at the most is read again; what the dead stored stays, and the heir goes on behind it."""
    assert scene.api.counts.read_again == LOST[point]
    stored = theatre.batches(scene)
    assert len(stored) == len(scene.api.counts.pages)
    assert len({request for *_, request, _ in stored}) == len(stored)
    by_the_dead = [each for each in stored if each[-1] != "finisher"]
    assert len(by_the_dead) == times - LOST[point]


def check_parts(theatre: Theatre, scene: Scene) -> None:
    """The parts of windows that were cut lie side by side, and each was cut once."""
    assert scene.api.counts.read_again == 1
    cut = "select count(*) from ing_task where provenance_code = %(source)s and status_code = 'PARTIAL'"
    assert theatre.stage.query(cut, scene.values)[0][0] >= 2
    windows = theatre.stage.query(
        "select window_from, window_to from ing_task where provenance_code = %(source)s"
        " and status_code = 'SUCCEEDED' order by 1",
        scene.values,
    )
    edges = [start for start, _ in windows] + [theatre.library.end]
    assert edges == [theatre.library.start] + [end for _, end in windows]


@pytest.mark.timeout(240)
class TestKilledAt:
    def test_any_line_nothing_is_lost_nothing_stored_twice_and_one_page_at_the_most_read_again(self, theatre: Theatre):
        kill_everywhere(theatre)
        wrong = {}
        for death in [*KILLS, *CUTS]:
            scene = theatre.scenes[death]
            try:
                theatre.judge(scene)
                check_parts(theatre, scene) if death in CUTS else check_pages(theatre, scene, *death[1:])
            except AssertionError as failure:
                wrong[death] = str(failure)
        assert wrong == {}


@pytest.mark.timeout(120)
class TestAnExecutorThatIsPaused:
    """SIGSTOP beyond its lease: to others it is dead, to itself no time has passed."""

    @pytest.mark.parametrize("point", ["harvest.fetched", "harvest.batch_stored"])  # outside and inside a transaction
    def test_it_writes_nothing_when_it_goes_on(self, theatre: Theatre, point: str):
        scene = theatre.prepare(f"paused at {point}", "token")
        theatre.await_stop(theatre.start(scene, f"{point}=stop@3"))
        theatre.inherit(scene)
        before = theatre.batches(scene)
        theatre.wake(scene)
        assert theatre.batches(scene) == before
        assert [executor for *_, executor in before].count(f"victim-{scene.source}") == 2
        theatre.judge(scene)
        assert scene.api.counts.read_again == 1

    def test_what_it_wanted_to_complain_about_is_not_written_either(self, theatre: Theatre):
        scene = theatre.prepare("paused with a failure", "token", faults=Faults(rate_500=1.0))
        sleeper = theatre.start(scene, "harvest.failed=stop")
        theatre.await_stop(sleeper)
        scene.api.faults.change(rate_500=0.0)
        theatre.inherit(scene)
        theatre.wake(scene)
        failed = "select 1 from ing_task_run_batch where provenance_code = %(source)s and status_code = 'FAILED'"
        assert theatre.stage.query(failed, scene.values) == []
        theatre.judge(scene)


@pytest.mark.timeout(120)
class TestKilledAgainAndAgain:
    """What an executor dies of must not kill them all; what it was merely doing when it died is not to blame."""

    ATTEMPTS = 2

    def kill(self, theatre: Theatre, scene: Scene, point: str) -> None:
        theatre.expect_killed(theatre.start(scene, f"{point}=kill"))
        theatre.stage.bury(scene.source, attempts=self.ATTEMPTS)

    def test_a_task_that_gets_on_each_time_is_never_given_up(self, theatre: Theatre):
        scene = theatre.prepare("gets on", "token")
        for _ in range(self.ATTEMPTS + 1):
            self.kill(theatre, scene, "harvest.batch_committed")
        theatre.inherit(scene)
        theatre.judge(scene)
        assert scene.api.counts.read_again == 0

    def test_a_task_that_gets_nowhere_is(self, theatre: Theatre):
        scene = theatre.prepare("gets nowhere", "token")
        for _ in range(self.ATTEMPTS):
            self.kill(theatre, scene, "harvest.fetched")
        theatre.inherit(scene)
        states = theatre.stage.query(
            "select status_code, finished_at is not null from ing_task where provenance_code = %(source)s order by 1",
            scene.values,
        )
        assert states == [("FAILED", True), ("SUCCEEDED", True)]
        value = "select normalized_instant, origin_instant from ing_cursor where provenance_code = %(source)s"
        [(reached, origin)] = theatre.stage.query(value, scene.values)
        assert reached == origin  # the second window is stored, but the first is not


@pytest.mark.timeout(120)
class TestKilledWhileItLeaves:
    @pytest.mark.parametrize("point", ["harvest.letting_go", "harvest.let_go"])
    def test_the_task_goes_on_where_it_was(self, theatre: Theatre, point: str):
        scene = theatre.prepare(f"leaving at {point}", "token", latency=0.04)
        leaver = theatre.start(scene, f"{point}=kill")
        theatre.stage.wait_for(lambda: scene.api.counts.total >= 3, 30, "some requests")
        leaver.terminate()
        theatre.expect_killed(leaver)
        by_the_dead = len(theatre.batches(scene))
        assert by_the_dead >= 2
        theatre.inherit(scene)
        theatre.judge(scene)
        assert scene.api.counts.read_again == 0

    def test_told_to_stop_it_gives_its_task_to_another_at_once(self, theatre: Theatre):
        scene = theatre.prepare("leaving in order", "token", latency=0.04)
        leaver = theatre.start(scene)
        theatre.stage.wait_for(lambda: scene.api.counts.total >= 3, 30, "some requests")
        leaver.terminate()
        assert leaver.wait(30) == 0
        theatre.inherit(scene, bury=False)
        theatre.judge(scene)
        assert scene.api.counts.read_again == 0


@pytest.mark.timeout(120)
class TestATaskThatNobodyCanTake:
    def test_it_keeps_no_executor_from_its_own_tasks(self, theatre: Theatre):
        """A row such as no program of ours writes: free, and yet held by one who is silent."""
        scene = theatre.prepare("beside a strange row", "token", latency=0.1)
        theatre.stage.change(
            "insert into ing_task (schedule_instance_id, plan_id, slice_id, provenance_code, endpoint_name,"
            " operation_code, expr_hash, idempotent_key, status_code, leased_until, lease_owner)"
            " values (0, 0, 0, 'strange', 'list', 'HARVEST', '', 'strange', 'QUEUED', now() - interval '1 day', 'x')"
        )
        try:
            theatre.start(scene, PENSTOCK_HARVEST_LEASE_SECONDS="0.5")  # shorter than its task takes
            theatre.stage.wait_until_drained(60, scene.source)
        finally:
            theatre.stage.change("delete from ing_task where provenance_code = 'strange'")
        theatre.judge(scene)
