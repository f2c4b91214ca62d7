"""A role of direct uploads that is killed at one line after another and revived each time, until all were tried."""

import random
import signal
import threading
import time
from collections.abc import Callable, Sequence

from tests.support.nursery import Child

Starting = Callable[[str], Child]


class Life(threading.Thread):
    """`start` starts the role with a failpoint; an empty one lets it live."""

    def __init__(self, name: str, points: Sequence[str], start: Starting, chance: random.Random) -> None:
        super().__init__(name=name, daemon=True)
        self._left = [f"{point}=kill@{chance.choice((1, 1, 2))}" for point in chance.sample(points, len(points))]
        self._start_role = start
        self._over = threading.Event()
        self.killed: list[str] = []
        self.wrong: list[str] = []

    @property
    def has_died_everywhere(self) -> bool:
        return not self._left

    def run(self) -> None:
        while self._left and not self._over.is_set():
            process = self._start_role(self._left[0])
            code = self._ended(process)
            if code is None:
                return
            if code != -signal.SIGKILL:
                self.wrong.append(f"{self._left[0]}: it ended with {code}")
            self.killed.append(self._left.pop(0))
        self._start_role("")

    def _ended(self, process: Child) -> int | None:
        while not self._over.is_set():
            if process.poll() is not None:
                return process.returncode
            time.sleep(0.02)
        return None

    def end(self) -> None:
        self._over.set()
        self.join(30)
