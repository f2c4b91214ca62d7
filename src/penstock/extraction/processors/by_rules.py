"""The mode `rules`: labels, headings and tables of the document are mapped to the schema, without a model.

The same document gives the same result, each value with its place. What is not found is left out; a result that does
not fit the schema then is a failure that names each path, never a guess.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from penstock.extraction.coercion import coerced
from penstock.extraction.field_map import Wanted, likeness, may_be_null, wanted_of
from penstock.extraction.markdown_page import page_of_markdown
from penstock.extraction.page_text import page_text
from penstock.extraction.ports import Extract, Manuscript, Place, Progress, Rule, Subject
from penstock.extraction.processors.labels import Labelled, labelled
from penstock.extraction.processors.rows import RowList
from penstock.extraction.schemas import errors_of
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError, Sentence
from penstock.kernel.schemas import fault, matches
from penstock.pdf.pages.model import Page

_LONGEST_LINE = 1_000


class RulesProcessor:
    """Asks no model."""

    name = "rules"

    async def process(self, rule: Rule, manuscript: Manuscript, subject: Subject, progress: Progress) -> Extract:  # noqa: ARG002  the port asks for it
        schema = rule.json_schema
        if schema is None:
            raise PenstockError(
                error_codes.ETL_RULE_INVALID, problems=[fault("/json_schema", Sentence("缺失", "is missing"))]
            )
        findings = Findings(wanted_of(schema, rule.options))
        done, total = 0, max(1, manuscript.page_count)
        async for page in manuscript.pages():
            await asyncio.to_thread(findings.look_at, page)
            done += 1
            await progress(min(done, total), total)
        if not done:  # read by somebody who gives no pages
            findings.look_at(page_of_markdown(await manuscript.markdown()))
        data, places = findings.result()
        places = places if done else {}
        if errors := errors_of(schema, data):
            raise PenstockError(error_codes.ETL_RESULT_INVALID, errors=errors)
        return Extract(data, places, {"strategy": "rules", "fields_found": len(places)})


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
        self._best = {each.pointer: _Best() for each in self._fields}
        columns = [column for each in everything for column in each.columns]
        self._known = frozenset(label for each in [*everything, *columns] for label in each.labels)

    def look_at(self, page: Page) -> None:
        text = page_text(page)
        taken = {
            table.id
            for table in page.tables
            if any(rows.take(page.number, table, text.cells[table.id]) for rows in self._lists)
        }
        for found in labelled(text, self._known, taken):
            self._weigh(found)
        for run in text.runs:
            for wanted in self._fields:
                if wanted.regex and not self._best[wanted.pointer].score[0]:
                    part = within(wanted.regex, run.text)
                    self._keep(wanted, part, run.place(run.pieces) if part else None, (0.1, 0))

    def _weigh(self, found: Labelled) -> None:
        for wanted in self._fields:
            like = max((likeness(found.label, label) for label in wanted.labels), default=0.0)
            if like and (like, found.strength) > self._best[wanted.pointer].score:
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
