"""The promise to a provider, kept by several executor processes together."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.harvest.planning import Trigger
from tests.chaos.harvest_sources import Harbour, generic_source, pointed_at
from tests.chaos.harvest_stage import HarvestStage
from tests.chaos.harvest_verdict import judge_records, judge_writes
from tests.standins import Habits, Library

ALLOWED = 12  # requests in any second
RATE = 6.0  # we keep so far below it that requests which a busy machine holds up do not count as too many
EXECUTORS = 4


@pytest.fixture
def stage(fresh_home: Path) -> Iterator[HarvestStage]:
    made = HarvestStage(fresh_home)
    made.open()
    yield made
    made.close()


@pytest.mark.timeout(120)
class TestFourExecutorsAndEightWindows:
    def test_the_source_never_has_to_say_that_we_are_too_fast(self, stage: HarvestStage):
        """It counts requests in any second; a restart of an executor and an empty Redis in between change nothing."""
        library = Library(400, days=2, seed=3, habits=Habits(revised=0))
        with Harbour() as harbour:
            api = harbour.serve("generic", library, rate=ALLOWED)
            stage.apply(generic_source("paced", "token", window="6h"))
            run = pointed_at(
                api, rateLimit={"qps": RATE, "pace": 1.0, "providerQps": ALLOWED, "burst": 1, "minRate": 1}
            )
            for number in range(EXECUTORS):
                stage.executor(f"executor-{number}", PENSTOCK_HARVEST_PER_EXECUTOR="2")
            stage.plan(Trigger("paced", since=library.start, until=library.end, run=run))
            stage.wait_for(lambda: api.counts.total >= 1, 30, "the first request")
            began = time.monotonic()
            stage.wait_for(lambda: api.counts.total >= 8, 30, "a few requests")
            stage.flush_redis()
            stage.kill("executor-0")
            stage.bury("paced")  # all of them lose their tasks, and take what there is
            stage.wait_until_drained(60)
            took = time.monotonic() - began
            assert judge_records(stage, api, "paced", library.end) == 400
            assert judge_writes(stage, api, "paced") == 400
        windows = stage.query("select count(*) from ing_task where status_code = 'SUCCEEDED'")
        assert windows == [(8,)]
        assert set(api.counts.by_status) == {200}
        assert api.counts.most_in_a_second <= ALLOWED
        assert took >= (api.counts.total - 1) / RATE - 0.5  # never more than the bucket gives, whoever asks
        workers = stage.query("select count(distinct executor) from ing_task_run")
        assert workers[0][0] >= 3
