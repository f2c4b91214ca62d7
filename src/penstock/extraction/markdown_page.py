"""Markdown as a page, for a text that has none: each line a block or a row, its place the line's share of the page."""

import re

from penstock.pdf.pages.model import Block, BlockKind, Box, Cell, Page, Span, Table

_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(.*)")
_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*")
_CELLS = re.compile(r"(?<!\\)\|")
_A4 = (595.0, 842.0)


class _Setter:
    def __init__(self, lines: list[str]) -> None:
        self._lines = lines
        self._height = 1 / max(1, len(lines))
        self.page = Page(1, *_A4)

    def box(self, first: int, last: int | None = None) -> Box:
        return Box(0, first * self._height, 1, ((first if last is None else last) + 1) * self._height)

    def span(self, text: str, box: Box) -> list[str]:
        if not text:
            return []
        name = f"s{len(self.page.spans) + 1}"
        self.page.spans.append(Span(name, text, box))
        return [name]

    def line(self, number: int) -> None:
        said = self._lines[number].strip()
        heading, item = _HEADING.fullmatch(said), _ITEM.fullmatch(said)
        kind = BlockKind.HEADING if heading else BlockKind.LIST_ITEM if item else BlockKind.PARAGRAPH
        text = (heading[2].rstrip("#").rstrip() if heading else item[1] if item else said).replace("**", "")
        box = self.box(number)
        level = len(heading[1]) if heading else 0
        self.page.blocks.append(Block(kind, box, text, level, self.span(text, box)))

    def table(self, first: int, last: int) -> None:
        rows = [number for number in range(first, last + 1) if not _RULE.fullmatch(self._lines[number])]
        cells = []
        for row, number in enumerate(rows):
            texts = [part.strip().replace("\\|", "|") for part in _CELLS.split(self._lines[number].strip().strip("|"))]
            for column, text in enumerate(texts):
                share = self.box(number)
                box = Box(column / len(texts), share.y0, (column + 1) / len(texts), share.y1)
                cells.append(Cell(row, column, text, box, spans=self.span(text, box)))
        name, box = f"t{len(self.page.tables) + 1}", self.box(first, last)
        columns = max((cell.column for cell in cells), default=0) + 1
        self.page.tables.append(Table(name, box, len(rows), columns, cells, header_rows=1))
        self.page.blocks.append(Block(BlockKind.TABLE, box, ref=name))


def page_of_markdown(text: str) -> Page:
    """Headings, lists, pipe tables and lines; comments are left out."""
    lines = _without_comments(text).splitlines()
    setter, number = _Setter(lines), 0
    while number < len(lines):
        last = number
        while last < len(lines) and lines[last].lstrip().startswith("|"):
            last += 1
        if last > number:
            setter.table(number, last - 1)
            number = last
            continue
        if lines[number].strip():
            setter.line(number)
        number += 1
    return setter.page


def _without_comments(text: str) -> str:
    """Lines stay where they are. A comment that nobody closes is none."""
    parts, at = list[str](), 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        parts += [text[at:begin], "\n" * text.count("\n", begin, end)]
        at = end + 3
    return "".join([*parts, text[at:]])
