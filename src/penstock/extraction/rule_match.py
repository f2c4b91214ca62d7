"""What the pages of a document say of each property that a rule asks for, found by labels, headings and tables.

Runs in the sandbox, on some pages at a time: `state` is what the next call goes on with. The same document gives the
same result, each value with its place. What is not found is left out, never guessed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.extraction.coercion import coerced
from penstock.extraction.field_map import LabelIndex, Wanted, may_be_null
from penstock.extraction.page_text import page_text
from penstock.extraction.ports import Place
from penstock.extraction.processors.labels import Labelled, labelled
from penstock.extraction.processors.rows import RowList
from penstock.kernel.schemas import matches
from penstock.kernel.step_budget import allow, go_on_with, spend, steps_left
from penstock.pdf.pages.model import Page

_LONGEST_LINE = 1_000
_STEPS_PER_PAGE = 20_000  # on top of the budget


class _RowsState(msgspec.Struct, array_like=True):
    rows: list[dict[str, Any]]
    places: dict[str, Place]
    columns: dict[int, int]
    width: int
    last_page: int


class _State(msgspec.Struct):
    steps: int
    best: dict[str, tuple[Any, Place, tuple[float, int]]]
    lists: list[_RowsState]


_states = msgspec.json.Decoder(_State)


@dataclass(slots=True)
class _Best:
    """The best value so far, and how good: likeness of the label, then how it stands by its value."""

    value: Any = None
    place: Place | None = None
    score: tuple[float, int] = field(default=(0.0, 0))


class Findings:
    """What the pages say of each property, page by page."""

    def __init__(self, wanted: Iterable[Wanted]) -> None:
        everything = list(wanted)
        self._lists = [RowList(each) for each in everything if each.is_rows]
        self._fields = [each for each in everything if not each.is_rows]
        self._patterned = [each for each in self._fields if each.regex]
        self._index = LabelIndex((at, label) for at, each in enumerate(self._fields) for label in each.labels)
        self._best = {each.pointer: _Best() for each in self._fields}
        columns = [column for each in everything for column in each.columns]
        self._known = frozenset(label for each in [*everything, *columns] for label in each.labels)

    def state(self) -> bytes:
        """For the call that looks at the next pages."""
        best = {at: (each.value, each.place, each.score) for at, each in self._best.items() if each.place is not None}
        lists = [_RowsState(each.rows, each.places, each.columns, each.width, each.last_page) for each in self._lists]
        return msgspec.json.encode(_State(steps_left(), best, lists))

    def go_on_from(self, state: bytes) -> None:
        """With what the pages before have said, and the steps that they have left."""
        said = _states.decode(state)
        go_on_with(said.steps)
        self._best |= {at: _Best(value, place, score) for at, (value, place, score) in said.best.items()}
        for rows, kept in zip(self._lists, said.lists, strict=True):
            rows.rows, rows.places, rows.columns = kept.rows, kept.places, kept.columns
            rows.width, rows.last_page = kept.width, kept.last_page

    def look_at(self, page: Page) -> None:
        allow(_STEPS_PER_PAGE)
        text = page_text(page)
        taken = {
            table.id
            for table in page.tables
            if any(rows.take(page.number, table, text.cells[table.id]) for rows in self._lists)
        }
        for found in labelled(text, self._known, taken):
            self._weigh(found)
        for run in text.runs:
            for wanted in self._patterned:
                spend()
                if wanted.regex and not self._best[wanted.pointer].score[0]:
                    part = within(wanted.regex, run.text)
                    self._keep(wanted, part, run.place(run.pieces) if part else None, (0.1, 0))

    def _weigh(self, found: Labelled) -> None:
        for at, like in self._index.alike(found.label).items():
            spend()
            wanted = self._fields[at]
            if (like, found.strength) > self._best[wanted.pointer].score:
                said = within(wanted.regex, found.value) if wanted.regex else found.value
                self._keep(wanted, said, found.place, (like, found.strength))

    def _keep(self, wanted: Wanted, said: str | None, place: Place | None, score: tuple[float, int]) -> None:
        value = None if said is None else coerced(said, wanted.schema, wanted.order)
        if value is not None:
            self._best[wanted.pointer] = _Best(value, place, score)

    def result(self) -> tuple[dict[str, Any], dict[str, list[Place]]]:
        data: dict[str, Any] = {}
        places: dict[str, list[Place]] = {}
        for wanted in self._fields:
            best = self._best[wanted.pointer]
            if best.place is not None:
                _put(data, wanted.at, best.value)
                places[wanted.pointer] = [best.place]
            elif may_be_null(wanted.schema):
                _put(data, wanted.at, None)
        for rows in self._lists:
            if rows.rows:
                _put(data, rows.wanted.at, rows.rows)
                places |= {at: [place] for at, place in rows.places.items()}
        return data, places


def _put(data: dict[str, Any], at: tuple[str, ...], value: Any) -> None:
    for name in at[:-1]:
        data = data.setdefault(name, {})
    data[at[-1]] = value


def within(pattern: str, text: str) -> str | None:
    """The first part of a text that has this form, as long as it can be. The engine only says yes or no, in time that
    is linear, so its borders are sought."""
    said = text[:_LONGEST_LINE]
    if not matches(pattern, said):
        return None
    anchored = f"^(?:{pattern})"
    start = next((at for at in range(len(said)) if matches(anchored, said[at:])), None)
    if start is None:
        return None
    ends = range(len(said), start, -1)
    end = next((at for at in ends if matches(f"{anchored}$", said[start:at])), None)
    return said[start:end] if end is not None else None
