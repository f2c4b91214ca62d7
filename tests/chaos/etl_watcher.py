"""Looks at tasks as people do, again and again, while things break: no task is ever seen to go back."""

import threading
from typing import Self

from penstock.extraction.runstate import RunState
from penstock.extraction.states import RunStatus
from penstock.kernel.errors import PenstockError
from tests.chaos.etl_stage import EtlStage

_ORDER = {RunStatus.PENDING: 0, RunStatus.MINERU_PARSING: 1, RunStatus.LLM_PROCESSING: 2}
_PAUSE = 0.02


class Watcher:
    """A thread of its own; what it found wrong is raised at the end of the `with`."""

    def __init__(self, stage: EtlStage, *tasks: int) -> None:
        self._stage = stage
        self.tasks = list(tasks)
        self.seen: dict[int, list[str]] = {}
        self.looks = self.refused = 0
        self._last: dict[int, tuple[int, int]] = {}
        self._wrong: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)
        if kind is None:
            assert not self._thread.is_alive()
            assert self._wrong == []

    def _watch(self) -> None:
        while not self._stop.wait(_PAUSE):
            for task_id in list(self.tasks):
                try:
                    self._compare(self._stage.look(task_id))
                except PenstockError:  # PostgreSQL is away, and Redis does not know it
                    self.refused += 1
                except BaseException as failure:  # noqa: BLE001  a thread has nobody to raise it to
                    self._wrong.append(repr(failure))

    def _compare(self, state: RunState) -> None:
        self.looks += 1
        now = (state.generation, _ORDER.get(state.status, 3))
        before = self._last.get(state.task_id, now)
        if now < before:
            self._wrong.append(f"task {state.task_id} went from {before} to {now}")
        self._last[state.task_id] = now
        seen = self.seen.setdefault(state.task_id, [])
        if seen[-1:] != [state.status]:
            seen.append(state.status)
