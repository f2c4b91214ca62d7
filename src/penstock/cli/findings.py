"""The shape of what `penstock doctor` finds."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from penstock.cli.screen import text


class Level(StrEnum):
    """How a check came out; only a fail makes the exit code 1."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"  # nothing to look at, and nothing wrong with that


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    name: str
    level: Level
    said: str
    todo: str = ""


Check = Callable[[], Finding]


def ok(name: str, said: str) -> Finding:
    return Finding(name, Level.OK, said)


def skip(name: str) -> Finding:
    return Finding(name, Level.SKIP, text("no address known", "地址未知"))
