"""Markdown in the smallest pieces that stay whole: a sentence, a row of a table, a heading, a code block.

Any markdown is taken, ours or that of another service (HTML tables too). Invariant: the units follow one another
without gap or overlap and are the document together.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from penstock.extraction.sentences import sentences

_PAGE = re.compile(r"<!-- page (\d{1,9}) -->\s*$")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*\r?\n?$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]")
_TABLE = re.compile(r"\s{0,3}(?:<(?:html|body|div|center)[^<>]*>\s{0,3}){0,3}<table\b", re.IGNORECASE)
_INNER_TABLE = re.compile(r"<table\b", re.IGNORECASE)
_TABLE_TAG = re.compile(r"<(/?)table\b[^<>]*>", re.IGNORECASE)
_ROW_END = re.compile(r"</tr\s*>\s*(?:</thead\s*>\s*|</tbody\s*>\s*)*", re.IGNORECASE)
_HEAD_END = re.compile(r"</thead\s*>\s*", re.IGNORECASE)
_ROW_SPAN = re.compile(r"rowspan\s*=\s*[\"']?(\d{1,4})", re.IGNORECASE)


class Cut(IntEnum):
    """How well a chunk may begin with a unit."""

    NEVER = 0  # it belongs to the unit before it
    SENTENCE = 1
    ROW = 2  # of a table, or an item of a list
    BLOCK = 3
    HEADING = 4


@dataclass(frozen=True, slots=True)
class Unit:
    """A piece of the markdown, and what is to be said before and after it when a chunk is cut there."""

    start: int
    end: int
    cut: Cut
    page: int
    headings: tuple[str, ...]
    opening: str = ""  # the head of the table that the unit goes on with
    closing: str = ""  # what ends the table if the chunk ends here

    def part(self, start: int, end: int) -> "Unit":
        """A piece of a unit that is far too long."""
        return replace(
            self,
            start=start,
            end=end,
            cut=self.cut if start == self.start else Cut.SENTENCE,
            opening=self.opening if start == self.start else "",
            closing=self.closing if end == self.end else "",
        )


def units_of(markdown: str) -> Iterator[Unit]:
    return _Reader(markdown).units()


class _Reader:
    """Goes through the text once, line by line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._page = 1
        self._path: list[tuple[int, str]] = []
        self._is_glued = False
        self._has_more = {"</table": True, "$$": True}  # what was looked for in vain is not looked for again

    def units(self) -> Iterator[Unit]:
        while self._at < len(self._text):
            yield from self._block(self._line(self._at))

    def _block(self, line: str) -> Iterator[Unit]:
        page, heading = _PAGE.match(line), _HEADING.match(line)
        if not line.strip():
            yield self._unit(self._at, Cut.BLOCK, glues=True)
        elif page:
            self._page = int(page[1])
            yield self._unit(self._at + len(line), Cut.BLOCK, glues=True)
        elif heading:
            self._leave(len(heading[1]))
            yield self._unit(self._at + len(line), Cut.HEADING, glues=True)
            self._path.append((len(heading[1]), (heading[2] or "").strip()))
        elif _FENCE.match(line):
            yield self._unit(self._fence_end(line), Cut.BLOCK)
        elif line.lstrip().startswith("$$"):
            yield self._unit(self._formula_end(line), Cut.BLOCK)
        elif _TABLE.match(line):
            yield from self._html_table()
        elif self._is_pipe_table(line):
            yield from self._pipe_table(line)
        else:
            yield from self._sentences(Cut.ROW if _ITEM.match(line) else Cut.BLOCK)

    def _line(self, at: int) -> str:
        end = self._text.find("\n", at)
        return self._text[at:] if end < 0 else self._text[at : end + 1]

    def _leave(self, level: int) -> None:
        while self._path and self._path[-1][0] >= level:
            self._path.pop()

    def _unit(self, end: int, cut: Cut, opening: str = "", closing: str = "", *, glues: bool = False) -> Unit:
        """The text up to `end`, and the blank lines after it."""
        line = self._line(end)
        while line and not line.strip():
            end += len(line)
            line = self._line(end)
        cut = Cut.NEVER if self._is_glued else cut
        headings = tuple(heading for _, heading in self._path)
        unit = Unit(self._at, end, cut, self._page, headings, opening, closing)
        self._at, self._is_glued = end, glues
        return unit

    def _fence_end(self, line: str) -> int:
        fence = _FENCE.match(line)
        mark = fence[1] if fence else "```"
        at = self._at + len(line)
        while at < len(self._text):
            inner = self._line(at)
            at += len(inner)
            if inner.strip().startswith(mark) and not inner.strip().strip(mark[0]):
                break
        return at

    def _formula_end(self, line: str) -> int:
        opened = self._at + line.index("$$") + 2
        closed = self._text.find("$$", opened) if self._has_more["$$"] else -1
        if closed < 0:
            self._has_more["$$"] = False
            return self._at + len(line)
        return closed + len(self._line(closed))

    def _is_pipe_table(self, line: str) -> bool:
        below = self._line(self._at + len(line)) if "|" in line else ""
        return "|" in below and "-" in below and not below.strip(" \t\r\n|:-")

    def _pipe_table(self, line: str) -> Iterator[Unit]:
        head_end = self._at + len(line)
        head_end += len(self._line(head_end))
        head = self._text[self._at : head_end]
        head = head if head.endswith("\n") else head + "\n"
        row = self._line(head_end)
        yield self._unit(head_end, Cut.BLOCK, glues="|" in row)
        expected = head_end
        while self._at == expected and "|" in row and not _begins_block(row):
            expected = self._at + len(row)
            yield self._unit(expected, Cut.ROW, head)
            row = self._line(self._at)

    def _html_table(self) -> Iterator[Unit]:
        end = self._html_end()
        if end < 0:
            yield from self._sentences(Cut.BLOCK)
            return
        table = self._text[self._at : end]
        ends = _row_ends(table)
        if len(ends) < 2:
            yield self._unit(end, Cut.BLOCK)
            return
        start, head = self._at, table[: ends[0]]
        for at, row_end in enumerate(ends[:-1]):
            cut = Cut.BLOCK if at == 0 else Cut.NEVER if at == 1 else Cut.ROW
            yield self._unit(start + row_end, cut, head if at else "", "</table>")
        yield self._unit(end, Cut.ROW if len(ends) > 2 else Cut.NEVER, head)

    def _html_end(self) -> int:
        """Where the table is closed; -1 if it never is."""
        depth = 0
        for tag in _TABLE_TAG.finditer(self._text, self._at) if self._has_more["</table"] else ():
            depth += -1 if tag[1] else 1
            if depth <= 0:
                return tag.end()
        self._has_more["</table"] = False
        return -1

    def _sentences(self, cut: Cut) -> Iterator[Unit]:
        """A paragraph or an item, up to the next blank line or the next block."""
        end = self._at + len(self._line(self._at))
        line = self._line(end)
        while line.strip() and not _begins_block(line) and not _ITEM.match(line):
            end += len(line)
            line = self._line(end)
        table = _INNER_TABLE.search(self._text, self._at + 1, end) if self._has_more["</table"] else None
        end = table.start() if table else end
        for at, (_, sentence_end) in enumerate(list(sentences(self._text, self._at, end))):
            yield self._unit(sentence_end, Cut.SENTENCE if at else cut)


def _begins_block(line: str) -> bool:
    return bool(_PAGE.match(line) or _HEADING.match(line) or _FENCE.match(line) or _TABLE.match(line))


def _row_ends(table: str) -> list[int]:
    """Where a table may be cut, its end last: after its head, and after rows that no merged cell ties to the next."""
    if len(_TABLE_TAG.findall(table)) != 2:
        return [len(table)]  # a table in a table is left whole
    head = _HEAD_END.search(table)
    least = head.end() if head else 0
    ends, start, tied = [], 0, 0
    for row in _ROW_END.finditer(table):
        spans = [int(number) for number in _ROW_SPAN.findall(table, start, row.end())]
        tied = max([tied - 1, *(number - 1 for number in spans)])
        start = row.end()
        if start >= least and tied <= 0:
            ends.append(start)
    if ends:
        ends[-1] = len(table)
    return ends or [len(table)]
