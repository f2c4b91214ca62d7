"""Where tables without drawn cells may be: lines that follow each other and agree on where their pieces stand.

Running text is kept out by its long lines, and the two columns of a page are read apart before tables are looked for.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from penstock.pdf.pages.tables.columns import Gap
from penstock.pdf.pages.tables.lines import Chunk, Line
from penstock.pdf.pages.tables.marks import Rule

FAR = 2.2  # letter heights of white between two lines of one table, at most
PROSE_WORDS = 8  # a piece with as many words that is also wide is running text
PROSE_WIDTH = 0.55  # of the width of the text around
WAITING = 3  # lines of another shape (wrapped text, sub-headings) that may stand between the rows of a table
HEADER_GAP = 1.0  # letter heights of white between the lines of a header, at most
GUTTER_WORDS = 4  # on both sides of a gap, for it to part running text
GUTTER_LINES = 5
LOOK_BACK = 4  # rows a line is compared with
_CAPTION = re.compile(
    r"(table|tab\.|tabelle|tableau|tabla|figure|fig\.|source|note|chart|表|图|圖)\s*[\dA-Z:.]", re.IGNORECASE
)


def agrees(one: Line, other: Line) -> bool:
    """At least two pieces stand one to one above each other."""
    pairs = 0
    for chunk in one.chunks:
        over = [each for each in other.chunks if each.x0 < chunk.x1 and chunk.x0 < each.x1]
        if len(over) == 1 and sum(1 for each in one.chunks if each.x0 < over[0].x1 and over[0].x0 < each.x1) == 1:
            pairs += 1
    return pairs >= 2


def is_caption(line: Line) -> bool:
    return bool(_CAPTION.match(line.chunks[0].text))


def is_drawn(line: Line) -> bool:
    """A picture made of letters."""
    return any("\u2500" <= letter <= "\u259f" for chunk in line.chunks for word in chunk.words for letter in word.text)


def is_prose(line: Line, width: float) -> bool:
    return any(chunk.x1 - chunk.x0 >= PROSE_WIDTH * width and is_prose_chunk(chunk) for chunk in line.chunks)


def is_prose_chunk(chunk: Chunk) -> bool:
    return chunk.word_count >= PROSE_WORDS


def text_columns(lines: Sequence[Line]) -> list[list[Line]]:
    """The lines of a page with two columns of running text, column by column; else all lines together.

    A gutter is a gap with running text on both sides in several lines. It parts the lines above and below too, as
    long as nothing stands across it and most of them have running text on one side.
    """
    gutter = _gutter(lines)
    if gutter is None:
        return [list(lines)]
    whole: list[Line] = []
    left: list[Line] = []
    right: list[Line] = []
    for band in _bands(lines, gutter):
        prose = sum(1 for line in band if any(chunk.word_count >= GUTTER_WORDS for chunk in line.chunks))
        if len(band) < GUTTER_LINES or 2 * prose < len(band):
            whole.extend(band)
            continue
        for line in band:
            sides = [chunk for chunk in line.chunks if chunk.x1 <= gutter], [c for c in line.chunks if c.x1 > gutter]
            for side, into in zip(sides, (left, right), strict=True):
                if side:
                    into.append(Line(min(c.y0 for c in side), max(c.y1 for c in side), tuple(side)))
    return [part for part in (whole, left, *text_columns(right)) if part]


def _gutter(lines: Sequence[Line]) -> float | None:
    gaps = [
        (left.x1, right.x0)
        for line in lines
        for left, right in pairwise(line.chunks)
        if left.word_count >= GUTTER_WORDS and right.word_count >= GUTTER_WORDS
    ]
    best, most = None, GUTTER_LINES - 1
    for start, end in gaps:
        middle = (start + end) / 2
        votes = sum(1 for other in gaps if other[0] < middle < other[1])
        if votes > most:
            best, most = middle, votes
    return best


def _bands(lines: Sequence[Line], gutter: float) -> list[list[Line]]:
    """Lines in order, cut into those that a gutter parts and those that stand across it."""
    bands: list[list[Line]] = []
    was_crossed = True
    for line in lines:
        crossed = any(chunk.x0 < gutter < chunk.x1 for chunk in line.chunks)
        if crossed or was_crossed or not bands:
            bands.append([])
        bands[-1].append(line)
        was_crossed = crossed
    return bands


def runs(lines: Sequence[Line], em: float) -> list[tuple[int, int]]:
    """Lines from the top, cut into runs that agree, by first line and the line after the last."""
    if not lines:
        return []
    width = max(line.x1 for line in lines) - min(line.x0 for line in lines)
    found: list[tuple[int, int]] = []
    start = 0
    while start < len(lines):
        end = _run_end(lines, start, width, em)
        if end > start + 1:
            found.append((start, end))
        start = max(end, start + 1)
    return found


def _run_end(lines: Sequence[Line], start: int, width: float, em: float) -> int:
    if len(lines[start].chunks) < 2 or is_prose(lines[start], width) or is_drawn(lines[start]):
        return start
    members, end = [lines[start]], start + 1
    for number in range(start + 1, len(lines)):
        line = lines[number]
        if line.y0 - lines[number - 1].y1 > FAR * em or is_prose(line, width) or is_caption(line) or is_drawn(line):
            break
        if len(line.chunks) > 1 and any(agrees(line, other) for other in members[-LOOK_BACK:]):
            members.append(line)
            end = number + 1
        elif number - end >= WAITING:
            break
    return end


def header_start(lines: Sequence[Line], start: int, gaps: Sequence[Gap], em: float) -> int:
    """Where the header of a table begins: close lines above it with a piece over one of its columns but the first."""
    x0, x1 = lines[start].x0, max(line.x1 for line in lines[start : start + LOOK_BACK])
    while start > 0:
        line, below = lines[start - 1], lines[start]
        if below.y0 - line.y1 > HEADER_GAP * em or line.x0 < x0 - em or line.x1 > x1 + em:
            break
        if is_caption(line) or is_prose(line, x1 - x0) or is_drawn(line) or _is_title(line, below, gaps, (x0, x1)):
            break
        start -= 1
    return start


def _is_title(line: Line, below: Line, gaps: Sequence[Gap], extent: tuple[float, float]) -> bool:
    """One piece that begins over the first column, or stands nearer to the middle of the table than of its figures.

    A label of the first row that goes on in the line below is none.
    """
    if len(line.chunks) > 1:
        return False
    chunk = line.chunks[0]
    if chunk.x0 < gaps[0].middle:
        return chunk.x1 > gaps[0].end or not below.chunks[0].words[0].text[:1].islower()
    x0, x1 = extent
    middle = (chunk.x0 + chunk.x1) / 2
    return abs(middle - (x0 + x1) / 2) < abs(middle - (gaps[0].end + x1) / 2)


def bounded(lines: Sequence[Line], rules: Sequence[Rule], em: float) -> list[tuple[float, float, float, float]]:
    """Boxes between level rulings of the same extent below each other, with no running text between."""
    if not lines or len(rules) < 2:
        return []
    width = max(line.x1 for line in lines) - min(line.x0 for line in lines)
    stops = [line for line in lines if is_prose(line, width) or is_caption(line)]
    stacks: list[list[Rule]] = []
    for rule in sorted(rules):
        stack = next((each for each in reversed(stacks) if _same_extent(each[-1], rule, em)), None)
        if stack is None or any(_is_between(stop, stack[-1], rule) for stop in stops):
            stacks.append([rule])
        else:
            stack.append(rule)
    return [(stack[0].start, stack[0].at, stack[0].end, stack[-1].at) for stack in stacks if len(stack) > 1]


def _is_between(line: Line, upper: Rule, lower: Rule) -> bool:
    return upper.at < line.middle < lower.at and line.x0 < lower.end and line.x1 > lower.start


def _same_extent(one: Rule, other: Rule, em: float) -> bool:
    return abs(one.start - other.start) <= em and abs(one.end - other.end) <= em
