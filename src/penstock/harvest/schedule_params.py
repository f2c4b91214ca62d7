"""The parameters of a schedule: a few are about planning, the others go to the source.

They are read when a source is applied, so that a schedule that could never run is refused, and at every run.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from penstock.kernel.errors import Sentence


class CandidateKind(StrEnum):
    """Why a record is to be looked at again."""

    STALE = "STALE"  # not looked at for long, oldest first
    EXPRESSION = "EXPRESSION"  # stored by other rules than today's
    SIGNALS = "SIGNALS"  # somebody said so, or it lies in quarantine


@dataclass(frozen=True, slots=True)
class ScheduleParams:
    """The parameters about planning (None where not given), and those for the source."""

    since: datetime | None
    until: datetime | None
    candidates: CandidateKind | None
    limit: int | None
    for_source: Mapping[str, str]


def read_params(params: Mapping[str, str]) -> ScheduleParams:
    """Raises ValueError, in English, for what cannot be read."""
    for name, wrong in wrong_params(params):
        raise ValueError(f"{name} {wrong.en}")
    read = {name: reader(params[name]) if name in params else None for name, (reader, _) in _READERS.items()}
    return ScheduleParams(**read, for_source={name: each for name, each in params.items() if name not in _READERS})


def wrong_params(params: Mapping[str, Any]) -> Iterator[tuple[str, Sentence]]:
    """Each parameter that cannot be read, and what it should be."""
    for name, (reader, wanted) in _READERS.items():
        try:
            reader(params[name]) if name in params else None
        except (TypeError, ValueError):
            yield name, wanted


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise ValueError(text)
    return count


_A_MOMENT = Sentence("须为日期或时间，如 2026-01-31", "should be a date or a time, such as 2026-01-31")
_READERS: Mapping[str, tuple[Callable[[Any], Any], Sentence]] = {
    "since": (_moment, _A_MOMENT),
    "until": (_moment, _A_MOMENT),
    "candidates": (
        CandidateKind,
        Sentence(f"须为 {'、'.join(CandidateKind)} 之一", f"should be one of {', '.join(CandidateKind)}"),
    ),
    "limit": (_count, Sentence("须为 1 或更大的整数", "should be a whole number, 1 or more")),
}
