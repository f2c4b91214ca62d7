"""ETL under fire: documents of several kinds, workers that are killed and paused, servers that die or forget.

Every task must end as an undisturbed one did: the same markdown, the same JSON, one end, told once. All the while a
watcher proves that no task is seen to go back.
`python -m tests.chaos.etl_soak --documents 100`; the same seed makes the same documents and the same order of trouble.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.kernel.errors import PenstockError
from tests.chaos.etl_stage import EtlStage
from tests.chaos.etl_watcher import Watcher
from tests.standins.openai_like import says
from tests.support.pdfs import text_pages
from tests.support.scans import saved_as, scan

SCHEMA = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
WEIGHTS = {
    "kill": 6, "pause": 2, "flush Redis": 2, "kill Redis": 1, "kill PostgreSQL": 1, "cut connections": 1,
    "kill scheduler": 1, "nothing": 2,
}  # fmt: skip


class SoakStage(EtlStage):
    """Leases are short here: whoever is paused loses its task."""

    lease_seconds = 2.0

    def environment(self, name: str) -> dict[str, str]:
        many = {"ETL_OCR_MAX_ATTEMPTS": "1000", "ETL_POSTPROCESS_MAX_ATTEMPTS": "1000", "PENSTOCK_LLM_QPM": "100000"}
        return super().environment(name) | many


@dataclass(frozen=True)
class Kind:
    """A document, and what is to be done with it."""

    name: str
    data: bytes
    provider: str = "local"
    rule: int | None = None


@dataclass
class Soak:
    """One seeded run on a stage that is open."""

    stage: EtlStage
    seed: int
    documents: int
    troubles: int
    with_ocr: bool
    workers: int = 2
    tasks: dict[int, Kind] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)
    did: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.stage.model.script[:] = [says({"total": 4})]
        self.kinds = self._kinds()

    def _kinds(self) -> list[Kind]:
        direct = self.stage.rule(name="direct", postprocess_mode="llm", json_schema=SCHEMA)
        chunked = self.stage.rule(
            name="chunked", postprocess_mode="llm", json_schema=SCHEMA, postprocess_strategy="chunked-extract"
        )
        picture = saved_as(scan("Total 4", size=(300, 90)), "PNG")
        kinds = [
            Kind("text.pdf", text_pages(3)),
            Kind("long.pdf", text_pages(150, 10)),
            Kind("chunks.pdf", text_pages(8, 12), rule=chunked),
            Kind("sent.png", picture, "mineru", direct),
            Kind("sent.pdf", text_pages(4, 5), "mineru"),
        ]
        return [*kinds, Kind("photo.png", picture, rule=direct)] if self.with_ocr else kinds

    # The run
    def learn(self) -> None:
        """What each kind gives when nothing happens."""
        for number in range(self.workers):
            self.stage.process(f"worker-{number}")
        self.stage.process("scheduler", ETL_ROLE="scheduler")
        tasks = {self._submit(kind, f"first-{kind.name}"): kind for kind in self.kinds}
        for task_id, row in self.stage.wait_until_ended(tasks, 120).items():
            assert row["status"] == "completed", row["error"]
            self.expected[tasks[task_id].name] = self.stage.outcome(row)
        self.stage.mineru.tasks.clear()

    def run(self, seconds: float) -> dict[str, int]:
        deadline = time.monotonic() + seconds
        with Watcher(self.stage) as watcher:
            waiting = [self.kinds[number % len(self.kinds)] for number in range(self.documents)]
            self.random.shuffle(waiting)
            every = max(1, self.troubles // max(1, len(waiting)))
            for number in range(max(self.troubles, len(waiting))):
                assert time.monotonic() < deadline, self._state()
                if waiting and number % every == 0:
                    kind = waiting.pop()
                    self.tasks[self._submit(kind, f"{number}-{kind.name}")] = kind
                    watcher.tasks = list(self.tasks)
                if number < self.troubles:
                    self._break_something()
            self.stage.wait_for(self._is_over, max(30.0, deadline - time.monotonic()), "every task has ended")
        return {"looks": watcher.looks, "looks while PostgreSQL was away": watcher.refused}

    def _is_over(self) -> bool:
        """The scheduler's own sweep does what is to be done."""
        with suppress(Exception):
            return all(row["status"] != "pending" for row in self.stage.rows(self.tasks).values())
        return False

    def _submit(self, kind: Kind, key: str) -> int:
        """As a client does: with a key, again until there is an answer."""
        while True:
            try:
                desk = self.stage.desk(provider=kind.provider)
                return self.stage.submit(kind.data, kind.name, desk, rule_id=kind.rule, idempotency_key=key)
            except PenstockError as away:
                assert away.code.retryable, away
                time.sleep(0.1)

    def _break_something(self) -> None:
        """Often enough that most tasks are hit, seldom enough that they get on."""
        time.sleep(self.random.uniform(0.1, 1.0))
        [what] = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        worker = f"worker-{self.random.randrange(self.workers)}"
        self.did[what] += 1
        stage = self.stage
        if what in ("kill", "kill scheduler"):
            name = worker if what == "kill" else "scheduler"
            stage.kill(name)
            stage.process(name, **({"ETL_ROLE": "scheduler"} if name == "scheduler" else {}))
        elif what == "pause":
            stage.pause(worker)
            time.sleep(stage.lease_seconds * 1.5)
            stage.resume(worker)
        elif what == "flush Redis":
            stage.flush_redis()
        elif what == "kill Redis":
            stage.crash_redis(empty=self.random.random() < 0.5)
        elif what == "kill PostgreSQL":
            stage.crash_postgres()
        elif what == "cut connections":
            stage.cut_connections()

    # The verdict
    def judge(self) -> dict[str, int]:
        rows = self.stage.rows(self.tasks)
        assert len(rows) == self.documents
        for task_id, row in rows.items():
            kind = self.tasks[task_id]
            assert row["status"] == "completed", (kind.name, row["error"])
            assert self.stage.outcome(row) == self.expected[kind.name], kind.name
            assert row["lease_owner"] is None
            assert self.stage.look(task_id).status == "completed"
        self._judge_books()
        sent = sum(kind.provider == "mineru" for kind in self.tasks.values())
        uploaded = sum(task.is_uploaded for task in self.stage.mineru.tasks.values())
        # Whoever is paused between asking for a task elsewhere and noting it down sends its file when it goes on.
        assert sent <= uploaded <= sent + self.did["pause"]
        return {
            "documents": len(rows),
            "processes killed": self.stage.kills,
            "workers lost over tasks": sum(row["lost_workers"] for row in rows.values()),
            "readings gone on with": sum(row["metadata"]["ocr"].get("pages_resumed", 0) > 0 for row in rows.values()),
            "sent to be read": sent,
            "of these, twice": uploaded - sent,
            "answers found again": sum(
                row["metadata"]["postprocess"].get("remembered", 0) for row in rows.values()
            ),
        }  # fmt: skip

    def _judge_books(self) -> None:
        """Each task once for its key, each with one end, of which people are told once."""
        [(begun, keys)] = self.stage.query("select count(*), count(distinct idempotency_key) from etl_task")
        assert begun == keys == self.documents + len(self.kinds)
        for table, condition in (
            ("state_transitions", "to_status <> 'pending'"),
            ("outbox_events", "notice = 'etl_completed'"),
        ):
            twice = self.stage.query(
                f"select entity_id, count(*) from {table} where entity_type = 'etl_task' and {condition}"
                " group by 1 having count(*) <> 1"
            )
            assert twice == []

    def _state(self) -> str:
        rows = [row for row in self.stage.rows(self.tasks).values() if row["status"] == "pending"]
        return f"{len(rows)} of {self.documents} are not done: {rows}\n{self.stage.logs()}"


def run(home: Path, *, seed: int, documents: int, troubles: int, **more: Any) -> dict[str, int]:
    seconds, with_ocr = more.get("seconds", 600.0), more.get("with_ocr", False)
    stage = SoakStage(home)
    stage.open()
    try:
        soak = Soak(stage, seed, documents, troubles, with_ocr)
        soak.learn()
        looks = soak.run(seconds)
        return soak.judge() | looks | {f"did: {name}": number for name, number in sorted(soak.did.items())}
    finally:
        stage.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="repeat a run")
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--troubles", type=int, default=250)
    parser.add_argument("--minutes", type=float, default=20)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}; repeat with --seed {seed}", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        counted = run(
            Path(name), seed=seed, documents=given.documents, troubles=given.troubles, seconds=given.minutes * 60,
            with_ocr=True,
        )  # fmt: skip
    for what, number in counted.items():
        print(f"{what:32} {number}")  # noqa: T201
    print("every task ended as it does when nothing happens, once")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
