"""Where the values of a result stand in the document.

A value is found by its text, whatever its spelling: widths, blanks, thousands, currencies, dates. Of several places
the one is taken where most of the object's other values stand beside it. What is not found is absent, never guessed.
Pages are looked at one by one and let go; what is kept is bounded, and so are the steps: a document in which the
values stand so often that they run out has the places that were found until then. Runs in the sandbox.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec

from penstock.extraction.page_text import Row, Run, page_text
from penstock.extraction.ports import Place
from penstock.extraction.schemas import pointer
from penstock.extraction.spelling import DATE_LIKE, NUMBER_LIKE, date_of, fold, number_of, squeezed
from penstock.kernel.step_budget import TooCostly, allow, spend
from penstock.pdf.pages.model import Page

_MAX_LEAVES = 50_000
_MAX_TEXT = 2_000  # letters of a value that is looked for
_MAX_ROWS = 3_000  # remembered for one value
_MAX_HITS = 50_000  # remembered for all
_STEPS_PER_PAGE = 20_000  # on top of the budget
_LETTERS_PER_STEP = 64
_BEGINNING = 8  # letters of a text by which it is looked up
_MAX_WEIGHED = 200  # rows that are compared for one object

Key = str | Decimal | date
Steps = tuple[str | int, ...]
Hits = dict[Row, "Hit"]


@dataclass(frozen=True, slots=True)
class Hit:
    """A place of a value. Quality: 3 all of a cell or line, 2 all of a span, 1 within, 0 only by another spelling."""

    quality: int
    place: Place


class _State(msgspec.Struct):
    is_spent: bool
    hits: list[list[tuple[Row, int, Place]]]  # of each key, in the order of the keys


_states = msgspec.json.Decoder(_State)


def places_of(data: Any, pages: Iterable[Page]) -> dict[str, list[Place]]:
    """By JSON pointer into `data`."""
    search = Search(data)
    if not search.is_empty:
        for page in pages:
            search.look_at(page)
    return search.places()


class Search:
    """All values of a result at once, through the pages in order."""

    def __init__(self, data: Any) -> None:
        self._leaves = [(steps, keys) for steps, value in _leaves(data) if (keys := _keys(value))][:_MAX_LEAVES]
        self._hits: dict[Key, Hits] = {key: {} for _, keys in self._leaves for key in keys}
        self._texts = _by_beginning(key for key in self._hits if isinstance(key, str))
        self._count = 0
        self._is_spent = False

    @property
    def is_empty(self) -> bool:
        return not self._leaves

    def state(self) -> bytes:
        """For the call that looks at the next pages."""
        hits = [[(row, hit.quality, hit.place) for row, hit in each.items()] for each in self._hits.values()]
        return msgspec.json.encode(_State(self._is_spent, hits))

    def go_on_from(self, state: bytes) -> None:
        said = _states.decode(state)
        self._is_spent = said.is_spent
        for each, kept in zip(self._hits.values(), said.hits, strict=True):
            each |= {row: Hit(quality, place) for row, quality, place in kept}
            self._count += len(kept)

    def look_at(self, page: Page) -> None:
        allow(_STEPS_PER_PAGE)
        if not self._is_spent:
            try:
                self._look_at(page)
            except TooCostly:
                self._is_spent = True

    def _look_at(self, page: Page) -> None:
        for run in page_text(page).runs:
            for key, piece_range in _values_in(run):
                if key in self._hits:
                    self._note(key, run, *piece_range)
            for key, start, end in self._texts_in(run):
                if len(key) > 1 or len(run.folded) == 1 or run.borders >= {start, end}:
                    self._note(key, run, run.owners[start], run.owners[end - 1], end - start)

    def _texts_in(self, run: Run) -> Iterator[tuple[str, int, int]]:
        """All texts at once: at each letter only the lengths are tried that a text with this beginning has."""
        folded = run.folded
        for size, beginnings in self._texts.items():
            spend(1 + len(folded) // _LETTERS_PER_STEP)
            for start in range(len(folded) - size + 1):
                for length in beginnings.get(folded[start : start + size], ()):
                    key, end = folded[start : start + length], start + length
                    spend(1 + length // _LETTERS_PER_STEP)
                    if end <= len(folded) and key in self._hits and run.is_word(start, end):
                        yield key, start, end

    def _note(self, key: Key, run: Run, first: int, last: int, letters: int = 0) -> None:
        pieces = run.pieces[first : last + 1]
        row, hits = run.row_of(pieces[0]), self._hits[key]
        quality = 1
        if letters == len(run.folded) or (not letters and len(run.pieces) == 1 and _is_all(run, key)):
            quality = 3
        elif letters and letters == sum(len(fold(piece.text)) for piece in pieces):
            quality = 2
        known = hits.get(row)
        if known is not None and known.quality >= quality:
            return
        if known is None:
            if len(hits) >= _MAX_ROWS or self._count >= _MAX_HITS:
                return
            self._count += 1
        hits[row] = Hit(quality, run.place(pieces))

    def places(self) -> dict[str, list[Place]]:
        found: dict[str, list[Place]] = {}
        used: set[Row] = set()
        for group in self._groups():
            seen = {steps: hits for steps, keys in group if (hits := self._of_keys(keys))}
            for steps, hit in _chosen(seen, used).items():
                found[pointer(steps)] = [hit.place]
        return found

    def _of_keys(self, keys: list[Key]) -> Hits:
        """Where the value is written as it is, and where in another way."""
        if len(keys) == 1 or not any(self._hits[key] for key in keys[1:]):
            return self._hits[keys[0]]
        others = {row: Hit(0, hit.place) for key in keys[1:] for row, hit in self._hits[key].items()}
        return {**others, **self._hits[keys[0]]}

    def _groups(self) -> Iterator[list[tuple[Steps, list[Key]]]]:
        groups: dict[Steps, list[tuple[Steps, list[Key]]]] = {}
        for steps, keys in self._leaves:
            groups.setdefault(_owner(steps), []).append((steps, keys))
        yield from groups.values()


def _by_beginning(keys: Iterable[str]) -> dict[int, dict[str, set[int]]]:
    """How long the texts with each beginning are; first by how long the beginning is."""
    found: dict[int, dict[str, set[int]]] = {}
    for key in keys:
        beginning = key[:_BEGINNING]
        found.setdefault(len(beginning), {}).setdefault(beginning, set()).add(len(key))
    return found


def _owner(steps: Steps) -> Steps:
    """The object that a value belongs to; an element of a list of plain values stands for itself."""
    return steps if steps and isinstance(steps[-1], int) else steps[:-1]


def _leaves(data: Any) -> Iterator[tuple[Steps, Any]]:
    pending: list[tuple[Steps, Any]] = [((), data)]
    while pending:
        steps, value = pending.pop()
        if isinstance(value, Mapping):
            pending += [((*steps, name), each) for name, each in reversed(list(value.items()))]
        elif isinstance(value, list):
            pending += reversed([((*steps, index), each) for index, each in enumerate(value)])
        else:
            yield steps, value


def _keys(value: Any) -> list[Key]:
    """How a value may be written, the closest first; truths and nothing are written nowhere."""
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int | float):
        return [Decimal(str(value)).normalize()] if abs(value) < 10**15 else []
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT or not fold(value):
        return []
    keys: list[Key] = [fold(value)]
    day = date_of(value.partition("T")[0])
    number = None if day else number_of(value)
    return keys + ([day] if day else []) + ([number.normalize()] if number is not None else [])


def _values_in(run: Run) -> Iterator[tuple[Key, tuple[int, int]]]:
    """Days and numbers that are written in a run."""
    for index, piece in enumerate(run.pieces):
        said = squeezed(piece.text)
        taken = []
        for found in DATE_LIKE.finditer(said):
            taken.append(found.span())
            for day in _days(found.group()):
                yield day, (index, index)
        for found in NUMBER_LIKE.finditer(said):
            if any(start < found.end() and found.start() < end for start, end in taken):
                continue
            number = number_of(found.group().strip(" (),.'"))
            if number is not None:
                yield number.normalize(), (index, index)
                if said[found.end() :].lstrip().startswith("%"):
                    yield (number / 100).normalize(), (index, index)
        if (whole := number_of(said)) is not None and whole < 0:
            yield whole.normalize(), (index, index)


def _days(text: str) -> set[date]:
    """A day that can be read in two ways may be either: it is asked whether it is a known day, not which."""
    return {day for day in (date_of(text, "dmy"), date_of(text, "mdy")) if day}


def _is_all(run: Run, key: Key) -> bool:
    if isinstance(key, date):
        return key in _days(run.pieces[0].text.strip())
    number = number_of(run.pieces[0].text)
    return number is not None and number.normalize() == key


def _chosen(seen: Mapping[Steps, Hits], used: set[Row]) -> dict[Steps, Hit]:
    """One place for each value of an object."""
    if not seen:
        return {}
    rarest = sorted(seen.values(), key=len)
    rows = list(dict.fromkeys(row for hits in rarest[:2] for row in list(hits)[:_MAX_WEIGHED]))

    def weight(row: Row) -> tuple[int, bool, int]:
        there = [hits[row].quality for hits in seen.values() if row in hits]
        return len(there), row not in used, sum(there)

    weights = {row: weight(row) for row in rows}
    most = max(weights.values())
    best = min((row for row in rows if weights[row] == most), key=lambda row: _distance(row, rarest))
    used.add(best)
    anchor = next(hits[best].place for hits in rarest if best in hits)
    return {steps: hits[best] if best in hits else _nearest(hits, anchor) for steps, hits in seen.items()}


def _distance(row: Row, group: list[Hits]) -> float:
    """How far the other values are, from this row; only a few are looked at."""
    place = next((hits[row].place for hits in group if row in hits), None)
    if place is None or len(group) == 1:
        return 0.0
    return sum(min(_apart(place, hit.place) for hit in list(hits.values())[:50]) for hits in group[:10])


def _apart(one: Place, other: Place) -> float:
    return abs(one.page - other.page) * 10 + abs(one.box.y0 - other.box.y0) + abs(one.box.x0 - other.box.x0) / 4


def _nearest(hits: Hits, anchor: Place) -> Hit:
    return min(hits.values(), key=lambda hit: (hit.place.page != anchor.page, -hit.quality, _apart(hit.place, anchor)))
