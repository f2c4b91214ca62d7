"""Running heads and page numbers: they are kept, and they are not part of the text.

A line at a page's edge that comes again on other pages is a running head, except where it stands first: there it may
be a title, and nothing is lost by keeping it once. Lines may carry the page's number; any other number makes them
different lines, for an invoice number is no furniture. What is remembered of a page is a few short keys.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from penstock.pdf.pages import marks
from penstock.pdf.pages.model import Block, BlockKind, Page

_EDGE = 0.11  # of the page's height, at the top and at the bottom
_MOST_BLOCKS = 4  # at each edge
_LONGEST = 160
_OFTEN = 3  # pages
_MOST_KEYS = 20_000  # a document with more different edges has no more running heads to find
_NUMBER = re.compile(r"\d{1,4}")
_TEXT = (BlockKind.PARAGRAPH, BlockKind.HEADING, BlockKind.LIST_ITEM)


class Edges(msgspec.Struct, frozen=True):
    """What stands at a page's top and bottom, small enough to be kept for each page of a long document."""

    page: int
    keys: list[str]


def edges_of(page: Page) -> Edges:
    return Edges(page.number, [key for block in _edge_blocks(page) for key in _keys(block, page.number)])


class RunningHeads:
    """Adds up the edges of pages, in any order."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}  # times, first page

    def add(self, edges: Edges) -> None:
        for key in dict.fromkeys(edges.keys):
            times, first = self._seen.get(key, (0, edges.page))
            if times or len(self._seen) < _MOST_KEYS:
                self._seen[key] = (times + 1, min(first, edges.page))

    def mark(self, page: Page) -> None:
        """Turn the page's running heads into furniture."""
        for block in _edge_blocks(page):
            if any(self._repeats(key, page.number) for key in _keys(block, page.number)):
                block.kind, block.level = BlockKind.FURNITURE, 0

    def _repeats(self, key: str, page: int) -> bool:
        times, first = self._seen.get(key, (0, page))
        return times >= _OFTEN and page != first


def mark_furniture(pages: Sequence[Page]) -> None:
    """For a document that is in memory."""
    heads = RunningHeads()
    for page in pages:
        heads.add(edges_of(page))
    for page in pages:
        heads.mark(page)


def looks_like_page_number(block: Block, blocks: Iterable[Block]) -> bool:
    """A page number by itself: in the margin, and nothing further out."""
    if block.kind not in _TEXT or not marks.is_page_number(block.text):
        return False
    if block.box.y1 >= _EDGE and block.box.y0 <= 1 - _EDGE:
        return False
    others = [other for other in blocks if other is not block and other.kind in (*_TEXT, BlockKind.TABLE)]
    if block.box.y0 > 1 - _EDGE:
        return all(other.box.y1 <= block.box.y1 + 0.005 for other in others) and _is_apart(block, others)
    return block.box.y1 < _EDGE and all(other.box.y0 >= block.box.y0 - 0.005 for other in others)


def _is_apart(block: Block, others: list[Block]) -> bool:
    """Not the last line of a column of numbers."""
    near = [other for other in others if 0 <= block.box.y0 - other.box.y1 < 0.6 * block.box.height]
    return not any(other.box.x0 < block.box.x1 and block.box.x0 < other.box.x1 for other in near)


def _edge_blocks(page: Page) -> Iterator[Block]:
    text = [block for block in page.blocks if block.kind in _TEXT and 0 < len(block.text) <= _LONGEST]
    top = [block for block in text if block.box.y1 < _EDGE]
    bottom = [block for block in text if block.box.y0 > 1 - _EDGE]
    yield from sorted(top, key=lambda block: block.box.y0)[:_MOST_BLOCKS]
    yield from sorted(bottom, key=lambda block: -block.box.y1)[:_MOST_BLOCKS]


def _keys(block: Block, page: int) -> Iterator[str]:
    """The text with its edge; and again for each number in it that may be the page's."""
    place = "t" if block.box.y1 < _EDGE else "b"
    yield place + block.text
    for number in list(_NUMBER.finditer(block.text))[:4]:
        beyond = int(number[0]) - page
        if abs(beyond) < 200:
            yield f"{place}{block.text[: number.start()]}\0{beyond}\0{block.text[number.end() :]}"
