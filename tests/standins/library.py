"""The truth behind every stand-in: records that appear, change and are withdrawn as time goes on.

Everything follows from the seed. `now` says how far time has gone; `at(instant)` says what the source held then, so
that a test can compare what was harvested with what was there. A few revisions arrive late: they are stamped before
the moment at which the source begins to serve them.
"""

import random
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import NamedTuple

START = datetime(2026, 1, 1, tzinfo=UTC)
SUBJECTS = ("asthma", "diabetes", "oncology", "cardiology")
FIELDS = ("updated", "created")


class Entry(NamedTuple):
    """One record as the source holds it: `updated` is its stamp, `visible` the moment from which it is served."""

    number: int
    version: int
    created: datetime
    updated: datetime
    visible: datetime
    is_deleted: bool

    @property
    def subject(self) -> str:
        return SUBJECTS[self.number % len(SUBJECTS)]


@dataclass(frozen=True, slots=True)
class Habits:
    """How lively a library is. Shares are of all records; `late_by` is the longest delay of a late arrival."""

    revised: float = 0.2
    deleted: float = 0.02
    late: float = 0.03
    late_by: timedelta = timedelta(minutes=5)
    same_stamp: float = 0.3
    at_edges: float = 0.05


class Library:
    """A seeded set of records over `days` days from `start`. Time stands at the end until somebody moves it."""

    def __init__(
        self,
        records: int = 1000,
        *,
        days: float = 30,
        seed: int = 0,
        start: datetime = START,
        habits: Habits | None = None,
    ) -> None:
        self.records, self.seed, self.start = records, seed, start
        self.end = start + timedelta(days=days)
        self._events = sorted(
            _history(self, habits or Habits()), key=lambda entry: (entry.visible, entry.number, entry.version)
        )
        self._moments = [entry.visible for entry in self._events]
        self._clock: Callable[[], datetime] | None = None
        self._now = self.end
        self._current: dict[int, Entry] = {}
        self._order: dict[str, list[tuple[datetime, int]]] = {field: [] for field in FIELDS}
        self._seen = 0
        self._windows: dict[tuple[str, datetime, datetime, str | None], list[Entry]] = {}

    @property
    def now(self) -> datetime:
        return self._clock() if self._clock else self._now

    @now.setter
    def now(self, instant: datetime) -> None:
        self._clock, self._now = None, instant

    def advance(self, by: timedelta) -> None:
        self.now = self.now + by

    def follow(self, clock: Callable[[], datetime]) -> None:
        """From here on time is what the clock says; records appear while one watches."""
        self._clock = clock

    def at(self, instant: datetime) -> dict[int, Entry]:
        """What the source held at that moment, by record number."""
        held: dict[int, Entry] = {}
        for entry in self._events:
            if entry.visible > instant:
                break
            held[entry.number] = entry
        return held

    def get(self, number: int) -> Entry | None:
        self._catch_up()
        return self._current.get(number)

    def window(self, field: str, first: datetime, end: datetime, subject: str | None = None) -> Sequence[Entry]:
        """Records whose stamp lies in [first, end) now, oldest first; equal stamps by number."""
        self._catch_up()
        key = (field, first, end, subject)
        if (found := self._windows.get(key)) is None:
            order = self._order[field]
            part = order[bisect_left(order, (first, -1)) : bisect_left(order, (end, -1))]
            entries = (self._current[number] for _, number in part)
            found = [entry for entry in entries if subject is None or entry.subject == subject]
            self._windows[key] = found
        return found

    def revisions(self) -> Sequence[Entry]:
        """Every entry there ever is, in the order in which they become visible."""
        return self._events

    def _catch_up(self) -> None:
        reached = bisect_left(self._moments, self.now + timedelta(microseconds=1))
        if reached == self._seen:
            return
        self._windows.clear()
        if reached < self._seen or reached - self._seen > 500:
            self._rebuild(reached)
        for entry in self._events[self._seen : reached]:
            self._replace(entry)
        self._seen = reached

    def _rebuild(self, reached: int) -> None:
        self._current = {entry.number: entry for entry in self._events[:reached]}
        for field in FIELDS:
            stamp = attrgetter(field)
            self._order[field] = sorted((stamp(entry), number) for number, entry in self._current.items())
        self._seen = reached

    def _replace(self, entry: Entry) -> None:
        before = self._current.get(entry.number)
        self._current[entry.number] = entry
        for field in FIELDS:
            order, stamp = self._order[field], attrgetter(field)
            if before is not None:
                del order[bisect_left(order, (stamp(before), entry.number))]
            insort(order, (stamp(entry), entry.number))


def _history(library: Library, habits: Habits) -> list[Entry]:
    chance = random.Random(library.seed)
    length = (library.end - library.start).total_seconds()
    history: list[Entry] = []
    stamp = library.start
    for number in range(library.records):
        if number == 0 or chance.random() >= habits.same_stamp:
            stamp = _stamp(chance, library.start, length, habits)
        created = stamp
        entry = Entry(number, 1, created, created, _visible(chance, created, habits), is_deleted=False)
        history.append(entry)
        while chance.random() < habits.revised:
            left = (library.end - entry.visible).total_seconds()
            if left <= 2:
                break
            later = _stamp(chance, entry.visible + timedelta(seconds=1), left - 1, habits)
            later = max(later, entry.visible + timedelta(seconds=1))
            entry = entry._replace(version=entry.version + 1, updated=later, visible=_visible(chance, later, habits))
            history.append(entry)
        if chance.random() < habits.deleted and (library.end - entry.visible).total_seconds() > 60:
            gone = entry.visible + timedelta(seconds=chance.randint(1, 59))
            history.append(entry._replace(version=entry.version + 1, updated=gone, visible=gone, is_deleted=True))
    return history


def _stamp(chance: random.Random, start: datetime, seconds: float, habits: Habits) -> datetime:
    """Somewhere in the stretch; often enough exactly on a minute, an hour or midnight, where windows meet."""
    stamp = start + timedelta(microseconds=int(chance.random() * seconds * 1_000_000))
    if chance.random() < habits.at_edges:
        edge = chance.choice(("second", "minute", "hour", "day"))
        stamp = stamp.replace(microsecond=0)
        if edge != "second":
            stamp = stamp.replace(second=0)
        if edge in ("hour", "day"):
            stamp = stamp.replace(minute=0)
        if edge == "day":
            stamp = stamp.replace(hour=0)
    return max(stamp, start)


def _visible(chance: random.Random, stamp: datetime, habits: Habits) -> datetime:
    if chance.random() >= habits.late:
        return stamp
    return stamp + chance.random() * habits.late_by
