"""Scenes of a harvest: each a source of its own with two days of records that stand still, planned, and not touched."""

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.harvest.planning import Trigger
from tests.chaos.harvest_sources import Harbour, generic_source, pointed_at, shipped_source
from tests.chaos.harvest_stage import HarvestStage
from tests.chaos.harvest_verdict import judge_books, judge_cursors, judge_records, judge_writes
from tests.standins import Habits, Library, Standin
from tests.support.nursery import Child

_NOTICED = ("task.lost", "task.left_to_its_lease")


@dataclass(frozen=True)
class Scene:
    source: str
    api: Standin

    @property
    def values(self) -> dict[str, str]:
        return {"source": self.source}


class Theatre:
    """Everything but what happens to the executors is the same each time."""

    def __init__(self, stage: HarvestStage, harbour: Harbour) -> None:
        self.stage, self._harbour = stage, harbour
        self.library = Library(200, days=2, seed=7, habits=Habits(revised=0.1))
        self.scenes: dict[Any, Scene] = {}

    def prepare(self, name: Any, kind: str, **options: Any) -> Scene:
        source = f"s{len(self.scenes)}"
        is_pubmed = kind == "pubmed"
        options = {"enforce_rate": False, **options}
        api = self._harbour.serve("pubmed" if is_pubmed else "generic", self.library, **options)
        self.stage.apply(shipped_source(source, "pubmed") if is_pubmed else generic_source(source, kind))
        small = {"pagination": {"pageSize": 40}, "batching": {"idBatchSize": 25}} if is_pubmed else {}
        run = pointed_at(api, **small)
        self.stage.plan(Trigger(source, since=self.library.start, until=self.library.end, run=run))
        api.counts.clear()
        self.scenes[name] = Scene(source, api)
        return self.scenes[name]

    def start(self, scene: Scene, failpoint: str = "", **environment: str) -> Child:
        """An executor that works on this scene alone, on one task at a time."""
        return self.stage.executor(
            f"victim-{scene.source}", scene.source, PENSTOCK_HARVEST_PER_EXECUTOR="1", PENSTOCK_FAILPOINT=failpoint,
            **environment,
        )  # fmt: skip

    def expect_killed(self, process: Child) -> None:
        assert process.wait(60) == -signal.SIGKILL, self.stage.logs()

    def await_stop(self, process: Child) -> None:
        state = Path(f"/proc/{process.pid}/stat")
        self.stage.wait_for(lambda: state.read_text().rsplit(")", 1)[1].split()[0] == "T", 30, "it has stopped")

    def wake(self, scene: Scene) -> None:
        """The sleeper goes on; returns when it has noticed that its task is not its own any more."""
        log = self.stage.home / f"victim-{scene.source}.log"
        self.stage.resume(f"victim-{scene.source}")
        self.stage.wait_for(lambda: any(word in log.read_text() for word in _NOTICED), 30, "it has noticed")

    def inherit(self, scene: Scene, *, bury: bool = True) -> None:
        """Another executor ends what is left; it need not wait for a lease where there is none."""
        if bury:
            self.stage.bury(scene.source)
        self.stage.executor(f"heir-{scene.source}", scene.source)
        self.stage.wait_until_drained(60, scene.source)

    def judge(self, scene: Scene) -> None:
        """What must hold after whatever happened."""
        records = judge_records(self.stage, scene.api, scene.source, self.library.end)
        assert records >= 190
        assert judge_writes(self.stage, scene.api, scene.source) == records  # each once: the library stood still
        assert judge_cursors(self.stage, scene.source) >= 2
        judge_books(self.stage, scene.source)
        reached = self.stage.query(
            "select normalized_instant from ing_cursor where provenance_code = %(source)s", scene.values
        )
        assert reached == [(self.library.end,)]

    def batches(self, scene: Scene) -> list[tuple]:
        """Answers that were stored: what was asked for, and in which run."""
        return self.stage.query(
            "select b.run_id, b.window_from, b.page_no, b.request::text, r.executor from ing_task_run_batch b"
            " join ing_task_run r on r.id = b.run_id where b.provenance_code = %(source)s"
            " and b.status_code = 'SUCCEEDED' order by b.id",
            scene.values,
        )
