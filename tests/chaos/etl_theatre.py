"""Scenes of ETL: each a picture of its own that a stand-in reads and a stand-in makes JSON of, submitted, not touched.

Whoever is to die or to be stopped over a scene works on that scene alone; one other worker ends whatever is left.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.extraction.desk import EtlDesk
from tests.chaos.etl_stage import EtlStage
from tests.standins.openai_like import says
from tests.support.nursery import Child
from tests.support.scans import saved_as, scan

TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


@dataclass(frozen=True)
class Scene:
    task_id: int
    queue: str
    digest: str

    @property
    def victim(self) -> str:
        return f"victim-{self.queue}"


class Theatre:
    def __init__(self, stage: EtlStage) -> None:
        self.stage = stage
        stage.model.script[:] = [says({"total": 4})]
        self.rule = stage.rule(name="total", postprocess_mode="llm", json_schema=TOTAL)
        self._count = 0
        stage.worker("finisher")
        undisturbed = self.prepare()
        stage.wait_until_ended([undisturbed.task_id])
        self.expected = stage.outcome(stage.row(undisturbed.task_id))
        assert self.expected["data"] == {"total": 4}
        assert "Chapter 1" in self.expected["markdown"]

    def desk(self, queue: str) -> EtlDesk:
        return self.stage.desk(queue, provider="mineru")

    def picture(self) -> bytes:
        self._count += 1
        return saved_as(scan(f"picture {self._count}", size=(200, 80)), "PNG")

    def prepare(self) -> Scene:
        data = self.picture()
        queue = f"q{self._count}"
        task_id = self.stage.submit(data, f"{queue}.png", self.desk(queue), rule_id=self.rule)
        return Scene(task_id, queue, hashlib.sha256(data).hexdigest())

    def start(self, scene: Scene, failpoint: str = "", **environment: str) -> Child:
        return self.stage.worker(scene.victim, scene.queue, failpoint, ETL_ROLE="light", **environment)

    def killed_at(self, *points: str) -> dict[str, Scene]:
        """One death for each, a few at a time."""
        scenes = {}
        for at in range(0, len(points), 4):
            dying = {point: self.prepare() for point in points[at : at + 4]}
            for victim in [self.start(scene, f"{point}=kill") for point, scene in dying.items()]:
                self.stage.expect_killed(victim)
            scenes |= dying
        return scenes

    def stopped_at(self, *points: str, **environment: str) -> dict[str, Scene]:
        scenes = {point: self.prepare() for point in points}
        for victim in [self.start(scene, f"{point}=stop", **environment) for point, scene in scenes.items()]:
            self.stage.await_stop(victim)
        return scenes

    def wake(self, *scenes: Scene) -> None:
        """The sleepers go on, end what they have in hand, and leave."""
        for scene in scenes:
            self.stage.resume(scene.victim)
        for scene in scenes:
            self.stage.dismiss(scene.victim)

    # What must hold after whatever happened
    def judge(self, scene: Scene) -> None:
        row = self.stage.row(scene.task_id)
        assert self.stage.outcome(row) == self.expected
        assert row["lease_owner"] is None
        assert (row["ocr_attempts"], row["postprocess_attempts"]) == (0, 0)
        assert self.stage.look(scene.task_id).status == "completed"
        assert self.read(scene)["uploaded"] == 1
        assert self.questions(scene) == 1
        assert self.ends(scene) == (["completed"], 1)

    def read(self, scene: Scene) -> Counter[str]:
        """How often the picture was given to who reads it."""
        ours = [
            task for task in self.stage.mineru.tasks.values() if scene.digest.startswith(task.data_id.split(".")[0])
        ]
        return Counter(submitted=len(ours), uploaded=sum(task.is_uploaded for task in ours))

    def questions(self, scene: Scene) -> int:
        [(asked,)] = self.stage.query(
            "select count(*) from llm_call where subject_type = 'etl_task' and subject_id = %(id)s",
            {"id": str(scene.task_id)},
        )
        return int(asked)

    def ends(self, scene: Scene) -> tuple[list[str], int]:
        """Every end that was ever written, and how often anybody was told."""
        values = {"id": str(scene.task_id)}
        moves = self.stage.query(
            "select to_status from state_transitions where entity_type = 'etl_task' and entity_id = %(id)s"
            " and to_status <> 'pending' order by id",
            values,
        )
        told = self.stage.query(
            "select 1 from outbox_events where entity_type = 'etl_task' and entity_id = %(id)s"
            " and notice = 'etl_completed'",
            values,
        )
        return [state for (state,) in moves], len(told)

    def seen(self, scene: Scene) -> tuple[Any, ...]:
        """Everything that a late worker could spoil."""
        return self.stage.row(scene.task_id), self.stage.files(scene.task_id), self.stage.look(scene.task_id)


def opened_theatre(home: Path) -> Iterator[Theatre]:
    """For a fixture: closed with all that was started in it."""
    stage = EtlStage(home)
    stage.open()
    try:
        yield Theatre(stage)
    finally:
        stage.close()
