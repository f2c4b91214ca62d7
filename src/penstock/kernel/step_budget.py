"""A budget of steps for work on what a user wrote: a schema, a rule, a pattern.

Time limits depend on the machine; a count of steps does not. So a rule that is too costly is refused with the same
verdict everywhere, and the time limits of the sandbox are left for what cannot be counted. A step is a comparison, a
keyword that is applied, a few letters that are matched: about two microseconds. `spend` does nothing where no budget
is open. Allowances grow with the size of the data only, so work stays linear in what was given.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

STEPS = 1_000_000


class TooCostly(Exception):
    """The budget is used up. `part` is the JSON pointer of what was being worked on."""

    def __init__(self, part: str) -> None:
        super().__init__(f"too many steps at {part or 'the whole'}")
        self.part = part


class _Budget:
    __slots__ = ("left", "part")

    def __init__(self, left: int) -> None:
        self.left = left
        self.part = ""


_open: ContextVar[_Budget | None] = ContextVar("step_budget", default=None)


@contextmanager
def step_budget(steps: int = STEPS) -> Iterator[None]:
    """Opens a budget for the block; inside another budget that one goes on to count."""
    if _open.get() is not None:
        yield
        return
    token = _open.set(_Budget(steps))
    try:
        yield
    finally:
        _open.reset(token)


@contextmanager
def spending_on(part: str) -> Iterator[None]:
    """Names the part that is being worked on, for the refusal."""
    budget = _open.get()
    before = budget.part if budget is not None else ""
    if budget is not None:
        budget.part = part
    yield
    if budget is not None:  # after a refusal the part stays: it is what was too costly
        budget.part = before


def spend(steps: int = 1) -> None:
    """Counts steps. Raises TooCostly when the open budget has none left."""
    budget = _open.get()
    if budget is None:
        return
    budget.left -= steps
    if budget.left < 0:
        raise TooCostly(budget.part)


def allow(steps: int) -> None:
    """Adds to the open budget; for data whose size is limited elsewhere."""
    budget = _open.get()
    if budget is not None:
        budget.left += steps


def go_on_with(steps: int) -> None:
    """Sets what is left of the open budget: what the call before in another process had left."""
    budget = _open.get()
    if budget is not None:
        budget.left = steps


def steps_left() -> int:
    """Steps of the open budget that are left; to go on with in another process."""
    budget = _open.get()
    return STEPS if budget is None else budget.left
