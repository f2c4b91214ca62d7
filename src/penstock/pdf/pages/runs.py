"""Letters become runs, runs become lines, lines become pieces of text in one style that no column gap divides.

All in a system where the text runs to the right (u) and its lines go down (v), so turned text is read like any other.
The order in the file is trusted only within a run; across runs, places decide. That order also holds for scripts
written leftwards, which PDFium has put in reading order already.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.pdf.pages import bulk
from penstock.pdf.pages.bulk import Codes, Floats
from penstock.pdf.pages.letters import LEFTWARDS, WIDE, Kinds, Mask

COLUMN_GAP = 0.7  # of the letters' size: wider than a word space, narrower than what parts columns
_WORD_GAP = 0.15
_WIDE_WORD_GAP = 0.45  # between letters of scripts that have no spaces
_BACK = -0.6  # how far a letter may reach back over the one before
_OFF_LINE = 0.35
_TWICE = 0.12  # a letter so near to the same letter is one that was drawn twice, to look bold
_LINES_BACK = 4
_SAME_LINE = 0.9  # no need to look for a better one


@dataclass(slots=True)
class Letters:
    """Words, or single letters where a word may not hold together, in the file's order.

    `at` and `to` are the places of their first and last letter in the page's text, `frames` are u0, v0, u1, v1.
    """

    at: bulk.Counts
    to: bulk.Counts
    objects: npt.NDArray[np.uint64]
    codes: Codes  # of the first letter
    kinds: Kinds  # of the first letter
    last_kinds: Kinds
    frames: Floats
    styles: bulk.Counts
    sizes: Floats
    bad: bulk.Counts  # how many letters mean nothing

    def only(self, chosen: Mask) -> "Letters":
        return Letters(
            self.at[chosen], self.to[chosen], self.objects[chosen], self.codes[chosen], self.kinds[chosen],
            self.last_kinds[chosen], self.frames[chosen], self.styles[chosen], self.sizes[chosen], self.bad[chosen],
        )  # fmt: skip

    @property
    def single(self) -> Mask:
        same: Mask = self.at == self.to
        return same

    @property
    def pieces(self) -> Mask:
        """Letters, from the second on, that come from the same ligature as the one before."""
        same: Mask = self.objects[1:] == self.objects[:-1]
        for side in (0, 2):
            same &= self.frames[1:, side] == self.frames[:-1, side]
        return same


@dataclass(slots=True)
class Run:
    """A piece of text on its way to a span."""

    text: str
    u0: float
    v0: float
    u1: float
    v1: float
    style: int
    size: float
    count: int
    bad: int
    is_doubled: bool
    wide_start: bool
    wide_end: bool
    leftwards: bool

    def absorb(self, other: "Run") -> None:
        """Take in the next one to the right."""
        gap = other.u0 - self.u1
        room = _WIDE_WORD_GAP if self.wide_end and other.wide_start else _WORD_GAP
        between = " " if gap > room * self.size else ""
        if self.leftwards and other.leftwards:
            self.text = other.text + between + self.text
        else:
            self.text += between + other.text
        self.u1, self.wide_end = max(self.u1, other.u1), other.wide_end
        self.v0, self.v1 = min(self.v0, other.v0), max(self.v1, other.v1)
        self.count, self.bad = self.count + other.count, self.bad + other.bad
        self.is_doubled = self.is_doubled or other.is_doubled


class Posts:
    """Upright lines that stand between columns, in the system of the text."""

    def __init__(self, lines: Iterable[tuple[float, float, float]]) -> None:
        self._lines = sorted(lines)  # u, v0, v1
        self._places = [u for u, _, _ in self._lines]
        self.are_there = bool(self._lines)

    def between(self, left: float, right: float, v: float) -> bool:
        if not self._lines:
            return False
        at = bisect_left(self._places, left)
        while at < len(self._places) and self._places[at] <= right:
            if self._lines[at][1] <= v <= self._lines[at][2]:
                return True
            at += 1
        return False


def runs_of(letters: Letters, text: str, posts: Posts) -> list[Run]:
    """In the file's order; each unbroken, in one style, without a gap as wide as between columns."""
    if not len(letters.at):
        return []
    doubled = _drawn_twice(letters)
    if doubled.any():
        kept = ~doubled
        marks = np.zeros(len(kept), bool)
        marks[np.flatnonzero(doubled) - 1] = True
        letters, doubled = letters.only(kept), marks[kept]
    starts = _starts(letters, posts)
    ends = np.append(starts[1:], len(letters.at)) - 1
    low = [np.minimum.reduceat(letters.frames[:, side], starts).tolist() for side in (0, 1)]
    high = [np.maximum.reduceat(letters.frames[:, side], starts).tolist() for side in (2, 3)]
    bad = np.add.reduceat(letters.bad, starts).tolist()
    counts = np.add.reduceat(letters.to - letters.at + 1, starts).tolist()
    twice = np.logical_or.reduceat(doubled, starts).tolist()
    wide, wide_ends = letters.kinds[starts] & WIDE != 0, letters.last_kinds[ends] & WIDE != 0
    left = np.logical_or.reduceat(letters.kinds & LEFTWARDS, starts).tolist()
    columns = zip(
        letters.at[starts].tolist(), letters.to[ends].tolist(), *low, *high, letters.styles[starts].tolist(),
        letters.sizes[starts].tolist(), counts, bad, twice,
        wide.tolist(), wide_ends.tolist(), left, strict=True,
    )  # fmt: skip
    return [Run(text[first : last + 1], *rest) for first, last, *rest in columns]


def _drawn_twice(letters: Letters) -> Mask:
    same = letters.single[1:] & letters.single[:-1] & (letters.codes[1:] == letters.codes[:-1])
    if not same.any():
        return np.zeros(len(letters.at), bool)
    shift = np.maximum(np.abs(np.diff(letters.frames[:, 0])), np.abs(np.diff(letters.frames[:, 1])))
    width = letters.frames[1:, 2] - letters.frames[1:, 0]
    near = (shift < _TWICE * letters.sizes[1:]) & (shift < 0.5 * width) & ~letters.pieces
    return np.concatenate([[False], near & same])


def _starts(letters: Letters, posts: Posts) -> npt.NDArray[np.int64]:
    frames, size = letters.frames, letters.sizes[1:]
    gap = frames[1:, 0] - frames[:-1, 2]
    back = (letters.kinds[1:] & letters.kinds[:-1] & LEFTWARDS) != 0
    if back.any():
        gap = np.where(back, frames[:-1, 0] - frames[1:, 2], gap)
    middle = (frames[:, 1] + frames[:, 3]) / 2
    broken = (
        (letters.styles[1:] != letters.styles[:-1])
        | (np.abs(np.diff(middle)) > _OFF_LINE * size)
        | (gap > COLUMN_GAP * size)
        | ((gap < _BACK * size) & ~letters.pieces)
    )
    if posts.are_there:
        at = np.flatnonzero(~broken & (gap > _WORD_GAP * size))
        places = zip(frames[at, 2].tolist(), frames[at + 1, 0].tolist(), middle[at].tolist(), strict=True)
        broken[at] = [posts.between(left, right, v) for left, right, v in places]
    return np.concatenate([[0], np.flatnonzero(broken) + 1])


def lines_of(runs: list[Run]) -> list[list[Run]]:
    """From the top; each from the left. Runs share a line when they overlap by more than half of the lower one."""
    lines: list[list[Run]] = []
    for run in sorted(runs, key=lambda run: (run.v0 + run.v1, run.u0)):
        v0, v1 = run.v0, run.v1
        best, most = None, 0.5
        for line in reversed(lines[-_LINES_BACK:]):
            first = line[0]
            if first.v1 <= v0 or v1 <= first.v0:
                continue
            shared = min(first.v1, v1) - max(first.v0, v0)
            if shared <= 0:
                continue
            part = shared / min(v1 - v0, first.v1 - first.v0)
            if part > most:
                best, most = line, part
                if part > _SAME_LINE:
                    break
        if best is None:
            lines.append([run])
        else:
            best.append(run)
    for line in lines:
        line.sort(key=lambda run: (run.u0, run.u1))
    return lines


def joined(line: list[Run], posts: Posts) -> list[Run]:
    """Neighbours that belong together as one; the second copy of what was drawn twice left out."""
    made: list[Run] = []
    for run in line:
        last = made[-1] if made else None
        if last is not None and _is_copy(run, last):
            last.is_doubled = True
        elif last is not None and _belongs(run, last, posts):
            last.absorb(run)
        else:
            made.append(run)
    return made


def _is_copy(run: Run, last: Run) -> bool:
    room = _TWICE * 2 * run.size
    inside = run.u1 <= last.u1 + room and abs(run.v0 - last.v0) < room and abs(run.v1 - last.v1) < room
    if not inside or run.u0 >= last.u1 - 0.5 * (run.u1 - run.u0):
        return False
    return run.text in last.text


def _belongs(run: Run, last: Run, posts: Posts) -> bool:
    gap = run.u0 - last.u1
    return (
        run.style == last.style
        and _BACK / 2 * run.size < gap <= COLUMN_GAP * run.size
        and abs(run.v0 + run.v1 - last.v0 - last.v1) < _OFF_LINE * 2 * run.size
        and not posts.between(last.u1, run.u0, (run.v0 + run.v1) / 2)
    )
