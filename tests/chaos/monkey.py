"""Something breaks, at random times, in a random way; the same seed breaks the same things in the same order."""

import random
import time
from collections.abc import Callable

from tests.chaos.stage import Stage

ACTORS = {"relay-a": "scheduler", "relay-b": "scheduler", "worker-a": "worker", "worker-b": "worker"}


class Monkey:
    """Keeps count of what it did, for the report."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.done: dict[str, int] = {}
        self._random = random.Random(seed)
        self._paused: dict[str, float] = {}

    def start_all(self) -> None:
        for name, role in ACTORS.items():
            self.stage.start(name, role)

    def act(self) -> str:
        """Break one thing and mend it; returns what was done."""
        self._wake_paused()
        self.refuse_self_ended()
        name = self._random.choices(list(_ACTIONS), [weight for weight, _ in _ACTIONS.values()])[0]
        _ACTIONS[name][1](self)
        self.done[name] = self.done.get(name, 0) + 1
        time.sleep(self._random.uniform(0.05, 0.6))
        return name

    def calm_down(self) -> None:
        """Everything runs again."""
        self._wake_paused(all_of_them=True)
        self.refuse_self_ended()

    def refuse_self_ended(self) -> None:
        """Servers may vanish; a role waits for them. One that ended without being killed is a defect."""
        for name, process in self.stage.actors.items():
            assert process.poll() is None, f"{name} ended by itself with {process.returncode}\n{self.stage.logs()}"

    def kill_actor(self) -> None:
        name = self._random.choice(sorted(ACTORS))
        if name in self._paused:
            self.stage.resume(name)
            del self._paused[name]
        if self.stage.actors[name].poll() is None:
            self.stage.kill(name)
        self.stage.start(name, ACTORS[name])

    def pause_actor(self) -> None:
        """Longer than its leases and PostgreSQL's patience."""
        name = self._random.choice(sorted(set(ACTORS) - set(self._paused)))
        self.stage.pause(name)
        self._paused[name] = time.monotonic() + self._random.uniform(1.0, 4.0)

    def _wake_paused(self, *, all_of_them: bool = False) -> None:
        for name, until in list(self._paused.items()):
            if all_of_them or time.monotonic() > until or len(self._paused) > 1:
                self.stage.resume(name)
                del self._paused[name]


_ACTIONS: dict[str, tuple[int, Callable[[Monkey], None]]] = {
    "kill a role": (12, Monkey.kill_actor),
    "pause a role": (3, Monkey.pause_actor),
    "kill redis": (2, lambda monkey: monkey.stage.crash_redis()),
    "lose redis": (1, lambda monkey: monkey.stage.crash_redis(empty=True)),
    "flush redis": (1, lambda monkey: monkey.stage.flush_redis()),
    "kill postgres": (2, lambda monkey: monkey.stage.crash_postgres()),
    "cut connections": (2, lambda monkey: monkey.stage.cut_connections()),
}
