"""What a call may use, and how it can end. Every ending is a value: a bomb in there is a result out here."""

from dataclasses import dataclass, field
from enum import StrEnum
from signal import Signals
from typing import Generic, TypeVar

Value = TypeVar("Value")
MiB = 1024 * 1024


class Ending(StrEnum):
    """How a call ended."""

    RETURNED = "returned"  # the function returned; `value` is what it gave
    FAILED = "failed"  # the function raised; `error` and `message` say what
    OUT_OF_MEMORY = "out_of_memory"  # it asked for more memory than allowed
    TIMED_OUT = "timed_out"  # it used up its CPU time: a verdict on what it was given
    STALLED = "stalled"  # it was killed by the wall clock with CPU time left: the machine is overloaded, no verdict
    CRASHED = "crashed"  # the process ended in the middle: `signal` or `exit_status` says how
    DENIED = "denied"  # it tried what is forbidden: network, another process, another's file, writing
    TOO_MANY_FILES = "too_many_files"  # it held more open files than allowed
    RESULT_TOO_LARGE = "result_too_large"  # it returned more bytes than allowed
    GARBLED = "garbled"  # the answer is not what was asked for


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may use. `memory` counts on top of what the warm template holds."""

    memory: int = 512 * MiB
    cpu_seconds: float = 30
    wall_seconds: float = 300  # a good deal more than the CPU time, or a busy machine ends calls that did no wrong
    open_files: int = 32
    result_bytes: int = MiB  # small values unpack to about sixty times this in the caller's memory

    def __post_init__(self) -> None:
        if min(self.memory, self.cpu_seconds, self.wall_seconds, self.result_bytes) <= 0:
            raise ValueError("memory, cpu_seconds, wall_seconds and result_bytes must be above 0")
        if self.open_files < 0:
            raise ValueError("open_files cannot be negative")

    def within(self, most: "Limits") -> bool:
        """Whether a pool that was started with `most` lets a call have these. The two times are the caller's choice."""
        return (
            self.memory <= most.memory and self.open_files <= most.open_files and self.result_bytes <= most.result_bytes
        )


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Value]):
    """How one call ended. `value` is None unless `ok`."""

    ending: Ending
    value: Value | None = None
    error: str = ""  # the type of what was raised
    message: str = ""  # one line for the log; may quote a stranger's bytes
    signal: Signals | None = None
    exit_status: int | None = None
    seconds: float = field(default=0.0, compare=False)  # of CPU time, over all attempts

    @property
    def ok(self) -> bool:
        return self.ending is Ending.RETURNED

    @property
    def is_killed(self) -> bool:
        """By a hand that is not ours: all that we kill has an ending of its own. The system's, short of memory?"""
        return self.ending is Ending.CRASHED and self.signal is Signals.SIGKILL

    @property
    def is_verdict(self) -> bool:
        """Whether the ending says something about what the call was given, and not about this machine."""
        return self.ending is not Ending.STALLED and not self.is_killed
