"""Lines of one column become paragraphs, headings and list items.

Invariant: the blocks hold the lines in their order, each once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from penstock.pdf.pages import marks
from penstock.pdf.pages.body import Body
from penstock.pdf.pages.joining import is_cjk, join_lines, weight
from penstock.pdf.pages.lines import Line
from penstock.pdf.pages.model import BlockKind

_SENTENCE_ENDS = (".", "。", "！", "？", "!", "?", "；", ";", ":", "：", "”", "…")
_NO_HEADING_ENDS = ("。", "；", "，", "、", ",", ";", ":", "：", ".")
_LONGEST_HEADING = 120  # letters; a Chinese one counts double
_LONGEST_NUMBERED = 60  # of a heading that only its number makes one


@dataclass(eq=False)
class Draft:
    """A block in the making."""

    kind: BlockKind
    lines: list[Line]
    level: int = 0

    @property
    def text(self) -> str:
        return join_lines(line.text for line in self.lines)


def drafts_of(lines: Sequence[Line], body: Body) -> list[Draft]:
    """Blocks of one column, from the top."""
    if not lines:
        return []
    usual = _Setting(_usual_gap(lines, body), max(line.x1 for line in lines), body)
    drafts = [_begun(lines, 0, usual)]
    for at in range(1, len(lines)):
        fresh = _begun(lines, at, usual)
        if _goes_on(drafts[-1], lines[at], fresh, usual):
            drafts[-1].lines.append(lines[at])
        else:
            drafts.append(fresh)
    for draft in drafts:
        if draft.kind is BlockKind.HEADING and (len(draft.lines) > 4 or weight(draft.text) > 2 * _LONGEST_HEADING):
            draft.kind, draft.level = BlockKind.PARAGRAPH, 0
    return drafts


@dataclass(frozen=True, slots=True)
class _Setting:
    """What is usual in the column."""

    gap: float
    right: float
    body: Body

    def is_full(self, line: Line) -> bool:
        return line.x1 > self.right - 2.5 * line.em


def _usual_gap(lines: Sequence[Line], body: Body) -> float:
    """From one line's middle to the next's, among lines close together."""
    steps = [_step(a, b) for a, b in pairwise(lines)]
    close = [step for step in steps if 0 < step < 2.6 * body.em]
    return median(close) if close else 1.3 * body.em


def _step(upper: Line, lower: Line) -> float:
    return lower.middle - upper.middle


def _begun(lines: Sequence[Line], at: int, usual: _Setting) -> Draft:
    line = lines[at]
    level = _heading_level(lines, at, usual)
    if level:
        return Draft(BlockKind.HEADING, [line], level)
    return Draft(
        BlockKind.LIST_ITEM if marks.list_mark(line.text) and not marks.is_rule(line.text) else BlockKind.PARAGRAPH,
        [line],
    )


def _heading_level(lines: Sequence[Line], at: int, usual: _Setting) -> int:
    """1 to 6, or 0: short, and larger, bolder or numbered."""
    line, text = lines[at], lines[at].text
    ratio = usual.body.ratio(line)
    is_large = ratio >= 1.15 and ratio >= (1.35 if marks.is_caption(text) else 1.15)
    longest = _LONGEST_HEADING if is_large or line.is_bold else _LONGEST_NUMBERED
    if len(text) > longest or line.widest_gap > 2.5:
        return 0
    numbered = marks.numbered_level(text)
    if not (is_large or line.is_bold or numbered) or not _could_head(text) or marks.bullet(text):
        return 0
    if is_large:
        by_size = 1 if ratio >= 1.8 else 2 if ratio >= 1.35 else 3
        return min(by_size, numbered) if numbered else by_size
    if ratio < 0.95 or text.endswith(_NO_HEADING_ENDS) or marks.is_caption(text) or not _stands_alone(lines, at, usual):
        return 0
    if line.is_bold:
        return numbered or 4
    return numbered if marks.heads_by_number(text) and weight(text) <= _LONGEST_NUMBERED else 0


def _could_head(text: str) -> bool:
    letters = sum(map(str.isalpha, text))
    seen = len(text) - text.count(" ")
    return letters >= 2 and letters * 2.5 > seen and weight(text) <= _LONGEST_HEADING and text[-1] not in "。；，,;"


def _stands_alone(lines: Sequence[Line], at: int, usual: _Setting) -> bool:
    """Not one of several like it, nor the middle of a paragraph that has some words in bold."""
    line = lines[at]
    for upper, lower in pairwise(lines[max(at - 1, 0) : at + 2]):
        is_close = _step(upper, lower) < 1.25 * usual.gap
        flows = usual.is_full(upper) and not upper.text.endswith(_SENTENCE_ENDS) and lower is line
        if is_close and (flows or _alike(upper, lower)):
            return False
    return True


def _alike(one: Line, other: Line) -> bool:
    both_marked = marks.list_mark(one.text) is not None and marks.list_mark(other.text) is not None
    numbered = marks.numbered_level(one.text) > 0 and marks.numbered_level(other.text) > 0
    return both_marked or numbered or (one.is_bold and other.is_bold)


def _goes_on(draft: Draft, line: Line, fresh: Draft, usual: _Setting) -> bool:
    """Whether the line belongs to what the lines before it began."""
    last = draft.lines[-1]
    if last.is_vertical or line.is_vertical:
        return last.is_vertical and line.is_vertical and is_cjk(last.text[-1:] or " ")
    if _stands_by_itself(last) or marks.is_rule(line.text) or line.widest_gap > 3:
        return False
    if fresh.kind is BlockKind.LIST_ITEM and not _is_by_chance(draft, line, usual):
        return False
    if draft.kind is BlockKind.HEADING or fresh.kind is BlockKind.HEADING:
        return draft.kind is fresh.kind and _same_heading(last, line, usual.right)
    em = max(last.em, line.em)
    is_other = abs(line.em - last.em) > 0.12 * em and not line.is_recognised
    if is_other or _step(last, line) > max(1.4 * usual.gap, 1.2 * em):
        return False
    return _runs_on(draft, line, usual, em)


def _stands_by_itself(line: Line) -> bool:
    """A row read across, a line drawn with letters, an entry of a table of contents."""
    return line.widest_gap > 3 or marks.is_rule(line.text) or marks.leads_to_a_page(line.text)


def _is_by_chance(draft: Draft, line: Line, usual: _Setting) -> bool:
    """Whether a number at a line's start is only where the paragraph's words happened to break."""
    last = draft.lines[-1]
    is_open = draft.kind is BlockKind.PARAGRAPH and not last.text.endswith(_SENTENCE_ENDS)
    return is_open and not marks.bullet(line.text) and usual.is_full(last)


def _runs_on(draft: Draft, line: Line, usual: _Setting, em: float) -> bool:
    """Whether a line just below goes on with the paragraph or the item, by how the lines begin and end."""
    last = draft.lines[-1]
    has_ended = last.text.endswith(_SENTENCE_ENDS)
    if last.is_bold != line.is_bold and has_ended:
        return False
    is_full = last.x1 > usual.right - max(2.5 * em, 0.12 * (usual.right - draft.lines[0].x0))
    if draft.kind is BlockKind.LIST_ITEM:
        return is_full or line.x0 > draft.lines[0].x0 + 0.5 * em
    is_indented = line.x0 > last.x0 + 0.8 * em and (len(draft.lines) > 1 or has_ended)
    is_centred = _is_centred(last, line)
    if not is_centred and (is_indented or _broke_early(draft, line, em)):
        return False
    return is_full or not has_ended


def _broke_early(draft: Draft, line: Line, em: float) -> bool:
    """Whether the next line's first word would have fitted: then the line was ended on purpose."""
    word = line.text.split(" ", 1)[0]
    share = len(word) / max(len(line.text), 1)
    needed = em if is_cjk(line.text[:1] or " ") else (line.x1 - line.x0) * share
    reach = max([line.x1, *[other.x1 for other in draft.lines[-20:]]])
    return reach - draft.lines[-1].x1 > needed + 1.5 * em


def _same_heading(last: Line, line: Line, right: float) -> bool:
    """A title over two lines: same letters, close, and the second has no number of its own."""
    is_long = last.x1 - last.x0 > 0.6 * (right - last.x0)
    return (
        abs(line.em - last.em) <= 0.05 * line.em
        and _step(last, line) < (2.1 if is_long else 1.6) * line.em
        and not marks.numbered_level(line.text)
        and not last.text.endswith(_SENTENCE_ENDS)
    )


def _is_centred(upper: Line, lower: Line) -> bool:
    return abs((upper.x0 + upper.x1) - (lower.x0 + lower.x1)) < 0.5 * lower.em
