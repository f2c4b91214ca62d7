"""Histories: what happens to a source and to those who harvest it, as data; made by lot, shown as a script, shortened.

A history is a shape and a list of steps. Each step makes sense after any others (one that cannot be is passed over), so
steps can be taken out of a history that fails until none is left that it does not need.
"""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.harvest_shapes import Shape, random_shape

IDENTS = "abcdefghijklmnopqrst"


@dataclass(frozen=True, slots=True)
class Step:
    """What to do. `trouble`: what happens at the n-th request while it is done.

    pass: seconds          change, delete: ident, seconds late           plan, backfill, update: triggers
    apply: page size       break: from, to (seconds from the start), status         mend
    work: tasks, executors, lot
    repeat (trouble only): the page before comes once more, where pages are counted, after a change if one is given
    """

    what: str
    args: tuple[Any, ...] = ()
    trouble: dict[int, "Step"] = field(default_factory=dict)

    def __str__(self) -> str:
        troubles = "".join(f"\n        at request {number}: {step}" for number, step in self.trouble.items())
        return " ".join(map(str, (self.what, *self.args))) + troubles


@dataclass(frozen=True, slots=True)
class History:
    seed: int
    shape: Shape
    steps: tuple[Step, ...]

    def __str__(self) -> str:
        told = "\n    ".join(map(str, self.steps))
        return f"seed {self.seed}\n{self.shape}\n    {told}"


def random_history(seed: int) -> History:
    dice = random.Random(seed)
    shape = random_shape(dice)
    steps = [dice.choice([_change, _change, _pass])(dice, shape) for _ in range(dice.randint(0, 30))]
    makers = dice.choices(
        [_change, _pass, _plan, _work, _break, _mend, _apply, _backfill, _update], [8, 5, 6, 7, 2, 1, 1, 1, 1],
        k=dice.randint(4, 20),
    )  # fmt: skip
    return History(seed, shape, (*steps, *(make(dice, shape) for make in makers)))


def _seconds(dice: random.Random, shape: Shape, most: int) -> int:
    """Often exactly on an edge."""
    seconds = shape.unit * dice.randint(0, most)
    return seconds + dice.choice([0, 0, 0, -1, 1, shape.granularity, shape.unit // 2])


def _change(dice: random.Random, shape: Shape) -> Step:
    late = dice.choice([0, 0, shape.lag, dice.randint(0, shape.lag), shape.lag + _seconds(dice, shape, 2)])
    return Step(dice.choice(["change", "change", "change", "delete"]), (dice.choice(IDENTS), max(0, late)))


def _pass(dice: random.Random, shape: Shape) -> Step:
    return Step("pass", (max(0, _seconds(dice, shape, 6)),))


def _plan(dice: random.Random, shape: Shape) -> Step:
    return Step("plan")


def _backfill(dice: random.Random, shape: Shape) -> Step:
    return Step("backfill", (max(0, _seconds(dice, shape, 4)),))


def _update(dice: random.Random, shape: Shape) -> Step:
    return Step("update")


def _apply(dice: random.Random, shape: Shape) -> Step:
    if shape.kind == "time":
        return Step("apply", (dice.choice([shape.page_size, min(20, shape.ceiling or 20)]),))
    return Step("apply", (dice.choice([1, shape.page_size]),))


def _break(dice: random.Random, shape: Shape) -> Step:
    start = _seconds(dice, shape, 10)
    return Step("break", (start, start + shape.unit * dice.randint(1, 5), dice.choice([500, 503, 400])))


def _mend(dice: random.Random, shape: Shape) -> Step:
    return Step("mend")


def _work(dice: random.Random, shape: Shape) -> Step:
    trouble = {}
    for _ in range(dice.choice([0, 0, 1, 1, 2])):
        what = dice.choice(["500", "400", "torn", "die", "die answered", "sleep", "stop", "change", "pass", "repeat"])
        makers = {"change": _change, "pass": _pass, "repeat": _repeat}
        step = makers.get(what, lambda *_, what=what: Step(what))(dice, shape)
        trouble[dice.randint(1, 6)] = step
    return Step("work", (dice.randint(1, 6), dice.choice([1, 1, 1, 2, 3]), dice.randrange(1000)), trouble)


def _repeat(dice: random.Random, shape: Shape) -> Step:
    return Step("repeat", dice.choice([(), (dice.choice(IDENTS), 0)]))


async def shortened(history: History, fails: Callable[[History], Awaitable[bool]]) -> History:
    """The same failure with as few steps as it takes."""
    size = max(1, len(history.steps) // 2)
    while size:
        at = 0
        while at < len(history.steps):
            shorter = replace(history, steps=history.steps[:at] + history.steps[at + size :])
            if await fails(shorter):
                history = shorter
            else:
                at += size
        size //= 2
    for at, step in enumerate(history.steps):
        for number in list(step.trouble):
            calmer = replace(step, trouble={key: each for key, each in step.trouble.items() if key != number})
            shorter = replace(history, steps=(*history.steps[:at], calmer, *history.steps[at + 1 :]))
            if await fails(shorter):
                history, step = shorter, calmer  # noqa: PLW2901  the next one is taken out of what is left
    return history
