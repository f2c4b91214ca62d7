"""In which order the parts of a page are read: a recursive cut along the white space.

A region is cut into bands by the white that runs across it. Neighbouring bands that leave the same gutter free are
read column by column; what lies across the gutter (a heading, a wide table) ends the columns above it. A gutter that
only parts labels from their values, or the words of one line, is none. Rows of cards are read row by row.
Invariant: each item is in exactly one region.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from penstock.pdf.pages import marks
from penstock.pdf.pages.lines import Item, lines_of
from penstock.pdf.pages.model import Span

Cover = list[tuple[float, float]]
_DEEPEST = 12
_VALUE = re.compile(r"[^\w]*\d[\d.,:/%\s-]*\D{0,4}")
_NOTHING = ("-", "–", "—", "/", "*", "n/a", "N/A")
_LABEL_END = (":", "：")


@dataclass(eq=False)
class Band:
    """Items with white above and below."""

    items: list[Item]
    y0: float
    y1: float
    cover: Cover


@dataclass(eq=False)
class Group:
    """Bands that are read together; more than one interval in `cover`: columns."""

    bands: list[Band]
    cover: Cover


def regions(items: Sequence[Item], em: float, from_right: bool = False, depth: int = 0) -> list[list[Item]]:
    """Parts in reading order. Each holds text of one column, or one thing that is no text."""
    if len(items) < 2 or depth > _DEEPEST:
        return _alone(sorted(items, key=lambda item: (item.y0, item.x0, item.order)))
    if _is_one_column(items):
        return [sorted(items, key=_from_the_top)]
    out: list[list[Item]] = []
    plain: list[Item] = []
    for group in _groups(_bands(items, em), em):
        gutters = _true_gutters(group, em)
        if not gutters:
            for band in group.bands:
                plain += sorted(band.items, key=_from_the_top) if len(band.items) > 1 else band.items
            continue
        out += _alone(plain)
        plain = []
        if _is_rows(group, gutters):
            for band in group.bands:
                out += _alone(band.items)
            continue
        gutters = _beside_pictures(group, gutters) or gutters
        for part in _shelves(group, gutters):
            columns = _columns(part, gutters)
            for column in reversed(columns) if from_right else columns:
                out += regions(column, em, from_right, depth + 1)
    return out + _alone(plain)


def _is_one_column(items: Sequence[Item]) -> bool:
    """Text, all of it across one place: no gutter can be in it."""
    return all(item.em for item in items) and max([item.x0 for item in items]) < min([item.x1 for item in items])


def _from_the_top(item: Item) -> tuple[float, float]:
    return item.y0, item.x0


def _alone(items: list[Item]) -> list[list[Item]]:
    """Text together, other things by themselves, as they stand from the top."""
    out: list[list[Item]] = []
    text: list[Item] = []
    for item in items:
        if item.em:
            text.append(item)
        else:
            above = [other for other in text if other.middle <= item.middle]
            if above:
                out.append(above)
                text = [other for other in text if other.middle > item.middle]
            out.append([item])
    return [*out, text] if text else out


def _core(item: Item) -> tuple[float, float]:
    """Where it stands from the top; letters' boxes are cut down a little, for they touch those of the next line."""
    slack = item.height * 0.2 if item.em and not item.is_vertical else 0.0
    return item.y0 + slack, item.y1 - slack


def _bands(items: Sequence[Item], em: float) -> list[Band]:
    bands: list[Band] = []
    placed = sorted(((*_core(item), item) for item in items), key=lambda entry: (entry[0], entry[2].order))
    for top, bottom, item in placed:
        if bands and top < bands[-1].y1:
            bands[-1].items.append(item)
            bands[-1].y1 = max(bands[-1].y1, bottom)
        else:
            bands.append(Band([item], top, bottom, []))
    for band in bands:
        band.cover = _merged([_reach(item) for item in band.items], em)
    return _side_by_side(bands, em)


def _side_by_side(bands: list[Band], em: float) -> list[Band]:
    """Lines of two columns need not stand at one height: what overlaps at all, beside each other, is one band."""
    out = bands[:1]
    for band in bands[1:]:
        last = out[-1]
        if max([item.y1 for item in last.items]) > min([item.y0 for item in band.items]):
            both = _merged(last.cover + band.cover, em)
            if len(both) == len(last.cover) + len(band.cover):
                out[-1] = Band(last.items + band.items, last.y0, band.y1, both)
                continue
        out.append(band)
    return out


def _reach(item: Item) -> tuple[float, float]:
    """Where it stands from the left; the dots of a table of contents lead on to what is beside them."""
    if item.em and isinstance(item.thing, Span) and marks.is_leader(item.thing.text):
        return item.x0 - 2 * item.em, item.x1 + 2 * item.em
    return item.x0, item.x1


def _merged(intervals: Cover, em: float) -> Cover:
    """Intervals that leave less than a letter's height between them count as one."""
    if len(intervals) == 1:
        return list(intervals)
    out: Cover = []
    for x0, x1 in sorted(intervals):
        if out and x0 - out[-1][1] < em:
            out[-1] = (out[-1][0], max(out[-1][1], x1))
        else:
            out.append((x0, x1))
    return out


def _groups(bands: list[Band], em: float) -> list[Group]:
    groups: list[Group] = []
    for at, band in enumerate(bands):
        last = groups[-1] if groups else None
        if last is None:
            groups.append(Group([band], band.cover))
            continue
        both = _merged(last.cover + band.cover, em)
        has_columns = len(last.cover) > 1
        if has_columns:
            joins = len(both) > 1 and not _is_title(last, band, bands[at + 1 : at + 2])
        else:
            joins = len(band.cover) == 1
        if joins:
            last.bands.append(band)
            last.cover = both
        else:
            tail = _tail(last, em) if has_columns and len(both) == 1 else []
            groups.append(Group([*tail, band], _merged([*(c for b in tail for c in b.cover), *band.cover], em)))
    return groups


def _is_title(group: Group, band: Band, following: list[Band]) -> bool:
    """A lone large line between two parts in columns: it stands over the second, though it is short."""
    if len(band.items) != 1 or not following or len(following[0].cover) == 1:
        return False
    item = band.items[0]
    sizes = [other.em for other in group.bands[-1].items if other.em]
    return bool(sizes) and item.em > 1.15 * max(sizes) and band.y0 - group.bands[-1].y1 > 0.5 * item.em


def _tail(group: Group, em: float) -> list[Band]:
    """Bands below the columns, in the left one only and set off: they go with the wide text that follows."""
    cut = len(group.bands)
    for at in range(len(group.bands) - 1, 0, -1):
        if len(group.bands[at].cover) > 1:
            break
        if group.bands[at].y0 - group.bands[at - 1].y1 > 1.5 * em:
            cut = at
    tail = group.bands[cut:]
    del group.bands[cut:]
    return tail


def _true_gutters(group: Group, em: float) -> Cover:
    """The gutters that part columns: wide, or kept free over several lines."""
    cover = _merged([_reach(item) for band in group.bands for item in band.items], em)
    gutters = [(a[1], b[0]) for a, b in pairwise(cover)]
    height = group.bands[-1].y1 - group.bands[0].y0
    if height < 2 * em:
        return []
    needed = em if height > 5 * em else 2.5 * em
    wide = [(x0, x1) for x0, x1 in gutters if x1 - x0 >= needed]
    return _without_list_marks(group, wide) if wide else []


def _without_list_marks(group: Group, gutters: Cover) -> Cover:
    """The white between bullets, or numbers, and their items parts nothing."""
    columns = _columns([item for band in group.bands for item in band.items], gutters)
    if len(columns) != len(gutters) + 1:
        return gutters
    return [
        gutter
        for gutter, column in zip(gutters, columns, strict=False)
        if not all(isinstance(item.thing, Span) and marks.is_lone_mark(item.thing.text) for item in column)
    ]


def _columns(items: list[Item], gutters: Cover) -> list[list[Item]]:
    columns: list[list[Item]] = [[] for _ in range(len(gutters) + 1)]
    for item in items:
        columns[sum(item.x0 >= x1 - 1e-6 for _, x1 in gutters)].append(item)
    return [column for column in columns if column]


def _beside_pictures(group: Group, gutters: Cover) -> Cover:
    """The gutters between columns with pictures and those without: cut first, and what is left is looked at anew."""
    columns = _columns([item for band in group.bands for item in band.items], gutters)
    if len(columns) != len(gutters) + 1:
        return []
    has_pictures = [any(not item.em for item in column) for column in columns]
    return [gutter for at, gutter in enumerate(gutters) if has_pictures[at] != has_pictures[at + 1]]


def _is_rows(group: Group, gutters: Cover) -> bool:
    """Columns that only name or number one another, line by line, are read across."""
    pairs = cells = named = 0
    for band in group.bands:
        columns = _columns(band.items, gutters)
        if any(not item.em for item in band.items) or band.y1 - band.y0 > 1.8 * max(item.em for item in band.items):
            continue
        if len(columns) > 1:
            pairs += 1
            said = [_said(column) for column in columns]
            cells += len(said) - 1
            if len(said) == 2 and (said[0].endswith(_LABEL_END) or _VALUE.fullmatch(said[0])):
                named += 1
            else:
                named += sum(_VALUE.fullmatch(text) is not None or text in _NOTHING for text in said[1:])
    return pairs >= 0.6 * len(group.bands) and named > 0.5 * cells


def _said(items: list[Item]) -> str:
    placed = sorted(items, key=lambda item: item.x0)
    return " ".join(item.thing.text for item in placed if isinstance(item.thing, Span)).strip()


def _shelves(group: Group, gutters: Cover) -> list[list[Item]]:
    """Rows of cards: parted by more white than their own lines are. Text that flows down its columns has none."""
    bands = group.bands
    gaps = [max(0.0, b.y0 - a.y1) for a, b in pairwise(bands)]
    if len(bands) < 3 or _flows(group, gutters):
        return [[item for band in bands for item in band.items]]
    wide = max(1.8 * median(gaps), min(x1 - x0 for x0, x1 in gutters) * 0.8)
    things = [len(_columns([item for item in band.items if not item.em], gutters)) for band in bands]
    shelves: list[list[Item]] = [[]]
    for at, band in enumerate(bands):
        is_next = at > 0 and (gaps[at - 1] > wide or min(things[at - 1 : at + 1]) > 1)  # a table beside its picture
        if is_next:
            shelves.append([])
        shelves[-1] += band.items
    return shelves


def _flows(group: Group, gutters: Cover) -> bool:
    """Whether the columns are filled by lines as wide as they are."""
    for column in _columns([item for band in group.bands for item in band.items], gutters):
        lines = lines_of([item for item in column if item.em])
        if len(lines) < 3 or any(not item.em for item in column):
            return False
        width = max(line.x1 for line in lines) - min(line.x0 for line in lines)
        if median(line.x1 - line.x0 for line in lines) < 0.6 * width:
            return False
    return True
