"""Labels and their values on a page: `Invoice No: 123`, `发票号码：123`, a label beside or above its value, a heading.

A line is looked at as it is set: the value of a label goes to the next label of the line, or to the gap before the
next span. Labels without a colon count only where they are all of a span, a cell or a heading.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.extraction.field_map import words
from penstock.extraction.page_text import PageText, Piece, Run
from penstock.extraction.ports import Place
from penstock.extraction.spelling import fold
from penstock.kernel.step_budget import spend
from penstock.pdf.pages.model import BlockKind, Cell

_COLON = re.compile(r"\s*[:：]\s*")
_SUM = re.compile(r"(合计|总计|小计|共计|价税合计|(sub|grand)?total(amount)?|sum)([(（].*[)）])?[:：]?", re.IGNORECASE)
_LABEL_LETTERS = 60
_LETTERS_PER_STEP = 16
_BELOW = 0.05  # of the page: a value this far under its label still belongs to it


@dataclass(frozen=True, slots=True)
class Labelled:
    """A label in words, and what may be its value. Strength: 3 with a colon, 2 beside or under a heading, 1 below."""

    label: str
    value: str
    place: Place
    strength: int


def labelled(text: PageText, known: frozenset[str], rows: Collection[str] = ()) -> Iterator[Labelled]:
    """`known`: all labels that are looked for; none of them is a value. `rows`: tables whose rows are taken; of these
    only sums are looked at."""
    for table, cells in text.cells.items():
        sums = sum_rows(cells) if table in rows else frozenset()
        some = cells if table not in rows else [each for each in cells if each[0].row in sums]
        yield from (each for each in _in_cells(some, known) if words(each.value) not in known)
    page = text.page.number
    for index, line in enumerate(text.lines):
        below = text.lines[index + 1] if index + 1 < len(text.lines) else []
        yield from (each for each in _in_line(page, line, below, known) if words(each.value) not in known)
    yield from _under_headings(text)


def sum_rows(cells: Sequence[tuple[Cell, Run]]) -> frozenset[int]:
    """Rows whose first words say that they add up the others."""
    first: dict[int, str] = {}
    for cell, _ in sorted(cells, key=lambda each: each[0].column):
        if cell.text.strip():
            first.setdefault(cell.row, cell.text)
    return frozenset(row for row, text in first.items() if _SUM.fullmatch(fold(text)))


def _in_line(page: int, line: Sequence[Piece], below: Sequence[Piece], known: frozenset[str]) -> Iterator[Labelled]:
    for index, piece in enumerate(line):
        after = line[index + 1] if index + 1 < len(line) else None
        pairs = list(_pairs(piece.text, known))
        for label, value in pairs:
            if value:
                yield _found(page, label, value, [piece], 3)
        if pairs and not pairs[-1][1]:
            yield from _beside(page, (pairs[-1][0], 3), piece, after, below)
        elif not pairs:
            yield from _beside(page, (piece.text, 2), piece, after, below)


def _beside(
    page: int, label: tuple[str, int], piece: Piece, after: Piece | None, below: Sequence[Piece]
) -> Iterator[Labelled]:
    """The next span of the line; without one, what stands right under the label."""
    said, strength = label
    if after is not None:
        if not list(_pairs(after.text)):
            yield _found(page, said, after.text, [piece, after], strength)
        return
    for under in below:
        is_near = 0 <= under.box.y0 - piece.box.y0 <= _BELOW and abs(under.box.x0 - piece.box.x0) < 0.02
        if is_near and not list(_pairs(under.text)):
            yield _found(page, said, under.text, [under], 1)


def _pairs(text: str, known: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """label, value of `a: 1  b: 2`. A colon within a time or an address is none."""
    said = unicodedata.normalize("NFKC", text)
    colons = [found for found in _COLON.finditer(said) if not _is_inside(said, found)]
    starts = [0, *(_label_start(said, left.end(), right.start(), known) for left, right in pairwise(colons))]
    for index, colon in enumerate(colons):
        end = starts[index + 1] if index + 1 < len(starts) else len(said)
        label = said[starts[index] : colon.start()].strip()
        if 0 < len(label) <= _LABEL_LETTERS:
            yield label, said[colon.end() : end].strip()


def _is_inside(said: str, colon: re.Match[str]) -> bool:
    before, after = said[: colon.start()][-1:], said[colon.end() :][:2]
    return (before.isdigit() and after[:1].isdigit() and colon.group() == ":") or after == "//"


def _label_start(said: str, left: int, right: int, known: frozenset[str]) -> int:
    """Where the next label begins, between two colons: a label that is known, else after a wide gap, else one word."""
    between = said[left:right]
    for blank in re.finditer(r"\s+", between):
        spend(1 + (len(between) - blank.end()) // _LETTERS_PER_STEP)
        if words(between[blank.end() :]) in known:
            return left + blank.start()
    gap = max(between.rfind("  "), between.rfind("\t"))
    space = gap if gap >= 0 else between.rfind(" ")
    return left + (space if space >= 0 else len(between))


def _in_cells(cells: Sequence[tuple[Cell, Run]], known: frozenset[str]) -> Iterator[Labelled]:
    """A cell that is a label, and the next one to its right that says something, or the one under it."""
    by_row: dict[int, list[tuple[Cell, Run]]] = {}
    for each in sorted(cells, key=lambda pair: (pair[0].row, pair[0].column)):
        if each[0].text.strip():
            by_row.setdefault(each[0].row, []).append(each)
    under = {(cell.row, cell.column): (cell, run) for cell, run in cells if cell.text.strip()}
    for row in by_row.values():
        for index, (cell, run) in enumerate(row):
            pairs = list(_pairs(cell.text, known))
            for label, value in pairs:
                if value:
                    yield _found(run.page, label, value, run.pieces, 3)
            label = pairs[0][0] if pairs else cell.text
            if len(pairs) > 1 or (pairs and pairs[0][1]) or not 0 < len(label) <= _LABEL_LETTERS:
                continue
            for value_cell, value_run in row[index + 1 : index + 2]:
                yield _found(run.page, label, value_cell.text, value_run.pieces, 2)
            if (cell.row + cell.row_span, cell.column) in under:
                value_cell, value_run = under[cell.row + cell.row_span, cell.column]
                yield _found(run.page, label, value_cell.text, value_run.pieces, 1)


def _under_headings(text: PageText) -> Iterator[Labelled]:
    """A heading, and the paragraphs up to the next one on the page."""
    heading, below = "", list[Run]()
    for block, run in [*text.blocks, (None, None)]:
        kind = block.kind if block is not None else None
        if kind in (BlockKind.PARAGRAPH, BlockKind.LIST_ITEM) and run is not None:
            below.append(run)
            continue
        if kind is BlockKind.FURNITURE:
            continue
        if heading and below:
            said = "\n".join(each.text for each in below)
            yield _found(text.page.number, heading, said, [piece for each in below for piece in each.pieces], 2)
        heading, below = (run.text if kind is BlockKind.HEADING and run is not None else ""), []


def _found(page: int, label: str, value: str, pieces: Sequence[Piece], strength: int) -> Labelled:
    return Labelled(words(label), value, Run(page, list(pieces)).place(pieces), strength)
