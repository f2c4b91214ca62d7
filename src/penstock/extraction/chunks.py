"""A long document in chunks that a model can work on.

A chunk is a piece of the markdown as it is (`own`; all together are the document, nothing twice) with what a reader
needs before it: the page, the headings above, the head of a table that goes on. A cut is made where it hurts least:
before a heading, between blocks, between rows, between sentences, and never inside a row or a sentence, nor between a
heading and what it is over. One that is longer than a chunk becomes a chunk by itself, over-long; more than four times
as long it is cut between letters, at a line's end or a space where there is one.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.extraction.units import Cut, Unit, units_of
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

_LONGEST_HEADING = 80
_OVERLONG = 4  # times the size: from here on a row or a sentence is cut
_JOINER = "\u200d"
_COMPLETING = ("Mn", "Me", "Mc", "Sk")
_ENOUGH = 0.5  # of the size: from here on a good place to cut is better than a full chunk


@dataclass(frozen=True, slots=True)
class Chunk:
    """`text` is for the model: what is repeated, marked as such, then `own`, then what closes an HTML table."""

    index: int
    text: str
    own: str
    first_page: int
    last_page: int
    headings: tuple[str, ...] = ()  # above the chunk, outermost first


def chunks(markdown: str, size: int, max_chunks: int | None = None) -> list[Chunk]:
    """The document in order. `size` is in letters, what is repeated counts; at most a third of it is repeated."""
    if size < 1:
        raise ValueError("a chunk has at least one letter")
    out: list[Chunk] = []
    for units in _packed(markdown, size):
        if max_chunks is not None and len(out) == max_chunks:
            raise PenstockError(error_codes.ETL_DOCUMENT_TOO_LONG, max_chunks=max_chunks, letters=len(markdown))
        out.append(_chunk(len(out), markdown, units, size))
    return out


def _chunk(index: int, markdown: str, units: list[Unit], size: int) -> Chunk:
    own = markdown[units[0].start : units[-1].end]
    before, after = _context(units[0], size), units[-1].closing
    first, last = units[0], units[-1]
    return Chunk(index, f"{before}{own}{after}", own, first.page, last.page, first.headings)


def _context(unit: Unit, size: int) -> str:
    """What is said again before a chunk that begins with this unit."""
    if unit.start == 0:
        return ""
    room = size // 3
    path = " > ".join(_short(heading) for heading in unit.headings)
    note = f"page {unit.page}; {path}" if path else f"page {unit.page}"
    mark = f"<!-- context: {note} -->\n\n"
    if len(mark) > room:
        mark = f"<!-- context: page {unit.page} -->\n\n"
        mark = mark if len(mark) <= room else ""
    return mark + unit.opening if len(mark) + len(unit.opening) <= room else mark


def _short(heading: str) -> str:
    heading = heading.replace("--", "- -").replace(">", "›")  # it stands in a comment, which it must not end
    return heading if len(heading) <= _LONGEST_HEADING else heading[: _LONGEST_HEADING - 1] + "…"


def _packed(markdown: str, size: int) -> Iterator[list[Unit]]:
    """Units, in order, in groups that fit."""
    held: list[Unit] = []
    for unit in _cut_down(markdown, size):
        held.append(unit)
        while len(held) > 1 and _length(held[0], held[-1], size) > size:
            at = _best_cut(held, size)
            yield held[:at]
            held = held[at:]
    if held:
        yield held


def _length(first: Unit, last: Unit, size: int) -> int:
    return len(_context(first, size)) + last.end - first.start + len(last.closing)


def _best_cut(held: list[Unit], size: int) -> int:
    """Where to end a chunk, given that the last unit is one too many."""
    start = held[0].start
    enough = start + size * _ENOUGH
    places = [at for at in range(1, len(held)) if at == 1 or _length(held[0], held[at - 1], size) <= size]
    good = [at for at in places if held[at - 1].end >= enough and held[at].cut > Cut.NEVER]
    if good:
        return max(good, key=lambda at: (held[at].cut, at))
    allowed = [at for at in places if held[at].cut > Cut.NEVER]
    return allowed[-1] if allowed else places[-1]  # a heading and its text that do not fit together


def _cut_down(markdown: str, size: int) -> Iterator[Unit]:
    """Units; those that are far too long in pieces."""
    for unit in units_of(markdown):
        if unit.end - unit.start <= _OVERLONG * size:
            yield unit
            continue
        start = unit.start
        while start < unit.end:
            end = _letter_boundary(markdown, start, min(start + max(size * 2 // 3, 1), unit.end), unit.end)
            yield unit.part(start, end)
            start = end


def _letter_boundary(text: str, start: int, end: int, limit: int) -> int:
    """The last good place at or before `end`: a line's end, a space, else between two whole letters."""
    if end >= limit:
        return limit
    for mark in ("\n", " "):
        at = text.rfind(mark, start + (end - start) // 2, end)
        if at > start:
            return at + 1
    at = end
    while at > start + 1 and _belongs_to_letter(text, at) and end - at < 32:
        at -= 1
    return at


def _belongs_to_letter(text: str, at: int) -> bool:
    """Whether what stands here completes the letter before it: an accent, a variant, a joined picture."""
    letter, before = text[at], text[at - 1]
    if letter.isascii() and before.isascii():
        return (before, letter) == ("\r", "\n") or before == "\\"
    return _JOINER in (letter, before) or unicodedata.category(letter) in _COMPLETING
