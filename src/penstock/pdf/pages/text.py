"""The text layer of a page as spans with places: what is seen, what is hidden, and what of it is rubbish.

Text outside the page's box is not part of the page. Text that is drawn invisibly is kept apart: over a scan it is
somebody's recognition of that scan, elsewhere it is something no reader of the page would see.
"""

import ctypes
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from pypdfium2 import raw

from penstock.pdf.pages import bulk
from penstock.pdf.pages.letters import (
    LEFTWARDS,
    MEANINGLESS,
    SPACE,
    WIDE,
    Mask,
    has_longer_forms,
    is_rubbish,
    kinds_of,
    plain_text,
    with_longer_forms,
)
from penstock.pdf.pages.model import Ruling, Span
from penstock.pdf.pages.runs import Letters, Posts, Run, joined, lines_of, runs_of
from penstock.pdf.pages.sheet import Sheet

_INVISIBLE = (raw.FPDF_TEXTRENDERMODE_INVISIBLE, raw.FPDF_TEXTRENDERMODE_CLIP)
_STROKED, _OUTLINED = raw.FPDF_TEXTRENDERMODE_FILL_STROKE, raw.FPDF_TEXTRENDERMODE_STROKE
_BOLD_NAME = re.compile(rb"bold|black|heavy|demi", re.IGNORECASE)
_BOLD_WEIGHT = 600
_TALL = 2.0  # sizes: a font that claims to be taller is asked for its ink
_SAMPLE = 64
_JUDGED = 3000  # characters
_STRAIGHT = 3  # degrees
_MOST_ANGLES = 16
_MANY_SPACES = re.compile(r" {2,}")
_NOTHING = 0x200B  # stands where a space is taken out
_LINE_FEED, _RETURN = 0x0A, 0x0D
Addresses = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Style:
    """What letters of one span have in common."""

    size: float
    angle: int  # degrees clockwise, as displayed
    is_bold: bool
    is_hidden: bool
    is_doubted: bool = False


@dataclass(slots=True)
class TextLayer:
    """`spans` are seen, `hidden` are not; whether those of `doubted` (ids) are, only the drawn page tells.
    `garbled` are ids of spans of either kind whose letters mean nothing."""

    spans: list[Span] = field(default_factory=list)
    hidden: list[Span] = field(default_factory=list)
    doubted: set[str] = field(default_factory=set)
    garbled: set[str] = field(default_factory=set)
    is_cut: bool = False


def read_text(page: Any, sheet: Sheet, rulings: Iterable[Ruling], most: int) -> TextLayer:
    """At most so many characters are looked at; the rest is left out, and the layer says so."""
    text_page = raw.FPDFText_LoadPage(page)
    if not text_page:
        return TextLayer()
    try:
        count = max(0, raw.FPDFText_CountChars(text_page))
        reading = _Reading(bulk.address_of(text_page), sheet, min(count, most))
        layer = reading.layer(list(rulings))
    finally:
        raw.FPDFText_ClosePage(text_page)
    layer.is_cut = count > most
    return layer


class _Reading:
    """One text layer while it is read."""

    def __init__(self, text_page: int, sheet: Sheet, count: int) -> None:
        self._text_page, self._sheet = text_page, sheet
        self._codes = bulk.codes_of(text_page, count)
        self._kinds = kinds_of(self._codes)
        self._present = int(np.bitwise_or.reduce(self._kinds)) if count else 0  # kinds that the page has at all
        self._are_spaces = self._kinds & SPACE != 0
        self._styles: dict[Style, int] = {}
        self._numbers: dict[tuple[float, int, bool, int, bool], int] = {}
        self._bold: dict[int, bool] = {}

    def layer(self, rulings: list[Ruling]) -> TextLayer:
        letters = self._letters()
        if not len(letters.at):
            return TextLayer()
        text = self._whole_text()
        strange = has_longer_forms(text)
        layer = TextLayer()
        styles = list(self._styles)
        number = 0
        for angle, chosen in _by_angle(letters, styles):
            turned = _turned(chosen.frames, angle)
            posts = _posts(rulings, self._sheet, angle)
            chosen.frames = turned
            runs = runs_of(chosen, text, posts)
            if strange:
                for run in runs:
                    run.text = with_longer_forms(run.text)
            for line in lines_of(runs):
                for run in joined(line, posts):
                    number += _add(layer, run, styles[run.style], self._sheet, number + 1)
        _judge(layer, self._unmapped(letters))
        return layer

    def _letters(self) -> Letters:
        """PDFium is asked for the ends of words, and for every letter only where these raise a doubt."""
        at, to, boxes, objects = self._words(np.flatnonzero(~self._are_spaces))
        styles = self._styles_of(at, objects)
        known = list(self._styles)
        sizes = np.array([style.size for style in known] or [1.0])[styles] if len(at) else np.zeros(0)
        letters = Letters(
            at, to, objects, self._codes[at], self._kinds[at], self._kinds[to], boxes, styles, sizes, self._bad(at, to)
        )  # fmt: skip
        self._use_ink_of_tall_letters(letters)
        return letters

    def _bad(self, at: bulk.Counts, to: bulk.Counts) -> bulk.Counts:
        """How many letters of each word mean nothing."""
        if not self._present & MEANINGLESS:
            return np.zeros(len(at), np.int64)
        so_far: bulk.Counts = np.concatenate([[0], np.cumsum(self._kinds & MEANINGLESS != 0)])
        bad: bulk.Counts = so_far[to + 1] - so_far[at]
        return bad

    def _words(self, at: bulk.Counts) -> tuple[bulk.Counts, bulk.Counts, bulk.Floats, Addresses]:
        """First and last letter, place and object of each that is on the page."""
        apart = np.diff(at) > 1
        first = at[np.concatenate([[True], apart])] if len(at) else at
        last = at[np.concatenate([apart, [True]])] if len(at) else at
        places = self._places(np.concatenate([first, last]))
        inside = self._are_inside(places)
        one, two = places[: len(first)], places[len(first) :]
        boxes = _around(one, two)
        begun, ended = self._objects(first, last)
        whole = (begun == ended) & inside[: len(first)] & inside[len(first) :]
        whole &= self._hold_together(one, two, last - first)
        if whole.all() and begun.all():
            return first, last, boxes, begun
        letters = at[~np.repeat(whole, last - first + 1)]
        kept = np.concatenate([first[whole], letters])
        ends = np.concatenate([last[whole], letters])
        boxes = np.concatenate([boxes[whole], self._places(letters)])
        objects = np.concatenate([begun[whole], bulk.text_objects(self._text_page, letters.tolist())])
        order = np.argsort(kept, kind="stable")
        order = order[((objects != 0) & self._are_inside(boxes))[order]]
        return kept[order], ends[order], boxes[order], objects[order]

    def _objects(self, first: bulk.Counts, last: bulk.Counts) -> tuple[Addresses, Addresses]:
        """The text objects that words begin and end in.

        The letters of an object follow each other, but where a script that runs leftwards is put in order. So a line
        that begins and ends in one object is all of it; the words of other lines are asked one by one.
        """
        if not len(first) or self._present & LEFTWARDS:
            objects = bulk.text_objects(self._text_page, [*first.tolist(), *last.tolist()])
            return objects[: len(first)], objects[len(first) :]
        breaks = np.cumsum((self._codes == _LINE_FEED) | (self._codes == _RETURN))[first]
        starts = np.concatenate([[0], np.flatnonzero(np.diff(breaks)) + 1])
        counts = np.diff(np.append(starts, len(first)))
        ends = starts + counts - 1
        told = bulk.text_objects(self._text_page, [*first[starts].tolist(), *last[ends].tolist()])
        begun = np.repeat(told[: len(starts)], counts)
        ended = begun.copy()
        mixed = np.flatnonzero(np.repeat(told[: len(starts)] != told[len(starts) :], counts))
        if len(mixed):
            told = bulk.text_objects(self._text_page, [*first[mixed].tolist(), *last[mixed].tolist()])
            begun[mixed], ended[mixed] = told[: len(mixed)], told[len(mixed) :]
        return begun, ended

    def _places(self, at: bulk.Counts) -> bulk.Floats:
        return self._sheet.displayed(bulk.loose_boxes(self._text_page, at.tolist()))

    def _are_inside(self, boxes: bulk.Floats) -> Mask:
        x, y = boxes[:, 0] + boxes[:, 2], boxes[:, 1] + boxes[:, 3]
        inside: Mask = (x >= 0) & (y >= 0) & (x <= 2 * self._sheet.width) & (y <= 2 * self._sheet.height)
        return inside

    @staticmethod
    def _hold_together(one: bulk.Floats, two: bulk.Floats, steps: bulk.Counts) -> Mask:
        """Whether first and last letter stand on one straight line, no further apart than their letters need."""
        across, down = np.abs(two[:, 0] - one[:, 0]), np.abs(two[:, 1] - one[:, 1])
        tall = np.maximum(one[:, 2] - one[:, 0], one[:, 3] - one[:, 1])
        straight = np.minimum(across, down) < 0.01 * tall
        together: Mask = (steps == 0) | (straight & (np.maximum(across, down) <= 1.1 * steps * tall))
        return together

    def _use_ink_of_tall_letters(self, letters: Letters) -> None:
        """Some fonts lie about their height; then a line would reach over its neighbours."""
        x0, y0, x1, y1 = letters.frames.T
        turned = np.array([style.angle % 180 == 90 for style in self._styles] or [False])[letters.styles]
        height = np.where(turned, x1 - x0, y1 - y0)
        tall = np.flatnonzero((height > _TALL * letters.sizes) | (height <= 0))
        if len(tall):
            one = self._sheet.displayed(bulk.tight_boxes(self._text_page, letters.at[tall].tolist()))
            two = self._sheet.displayed(bulk.tight_boxes(self._text_page, letters.to[tall].tolist()))
            letters.frames[tall] = _around(one, two)

    def _styles_of(self, at: npt.NDArray[np.int64], objects: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
        """The style of each letter; asked for once per text object, as a file draws many letters with each."""
        if not len(at):
            return np.zeros(0, np.int64)
        starts = np.concatenate([[0], np.flatnonzero(objects[1:] != objects[:-1]) + 1])
        lengths = np.diff(np.append(starts, len(at)))
        items = objects[starts].tolist()
        looks = bulk.looks_of(self._text_page, at[starts].tolist(), items)
        doubted = bulk.are_pale(items) | bulk.are_optional(items)
        matrices = looks.matrices
        p, q, r, s, _, _ = self._sheet.matrix
        across, down = matrices[:, 0] * p + matrices[:, 1] * r, matrices[:, 0] * q + matrices[:, 1] * s
        sizes = np.abs(looks.sizes) * np.hypot(matrices[:, 2], matrices[:, 3])
        if not np.isfinite(sizes).all():
            sizes = np.nan_to_num(sizes, posinf=1.0)
        sizes = np.maximum(np.round(sizes * 2) / 2, 0.5)
        described = zip(
            sizes.tolist(), _angles(across, down).tolist(), map(self._is_bold, looks.fonts), looks.modes.tolist(),
            doubted.tolist(), strict=True,
        )  # fmt: skip
        numbers = [self._numbers[each] if each in self._numbers else self._number(*each) for each in described]
        return np.repeat(np.array(numbers, np.int64), lengths)

    def _number(self, size: float, angle: int, is_bold: bool, mode: int, is_doubted: bool) -> int:
        style = Style(size, angle, is_bold or mode == _STROKED, mode in _INVISIBLE, is_doubted and mode != _OUTLINED)
        number = self._styles.setdefault(style, len(self._styles))
        self._numbers[size, angle, is_bold, mode, is_doubted] = number
        return number

    def _is_bold(self, font: int) -> bool:
        if font not in self._bold:
            self._bold[font] = bool(font) and _font_is_bold(ctypes.cast(font, raw.FPDF_FONT))
        return self._bold[font]

    def _whole_text(self) -> str:
        """All characters, one for each of PDFium's, so that places in it are places there."""
        codes = self._codes.copy()
        if self._present & WIDE:
            wide = self._kinds & WIDE != 0
            between = np.flatnonzero(self._are_spaces[1:-1] & wide[:-2] & wide[2:]) + 1
            codes[between[bulk.are_added(self._text_page, between.tolist())]] = _NOTHING
        return plain_text(codes)

    def _unmapped(self, letters: Letters) -> float:
        sample = letters.at[:: max(1, len(letters.at) // _SAMPLE)].tolist()
        return bulk.map_errors(self._text_page, sample) / len(sample)


def _by_angle(letters: Letters, styles: list[Style]) -> list[tuple[int, Letters]]:
    if len({style.angle for style in styles}) == 1:
        return [(styles[0].angle, letters)]
    angles = np.array([style.angle for style in styles])[letters.styles]
    return [(angle, letters.only(angles == angle)) for angle in sorted(set(angles.tolist()))]


def _around(one: bulk.Floats, two: bulk.Floats) -> bulk.Floats:
    return np.hstack([np.minimum(one[:, :2], two[:, :2]), np.maximum(one[:, 2:], two[:, 2:])])


def _font_is_bold(font: Any) -> bool:
    name = ctypes.create_string_buffer(128)
    raw.FPDFFont_GetBaseFontName(font, name, len(name))
    return bool(_BOLD_NAME.search(name.value)) or raw.FPDFFont_GetWeight(font) >= _BOLD_WEIGHT


def _angles(across: bulk.Floats, down: bulk.Floats) -> npt.NDArray[np.int64]:
    """Whole degrees clockwise; nearly straight is straight, and so is all of a page that turns in too many ways."""
    if not (np.isfinite(across).all() and np.isfinite(down).all()):
        across, down = np.nan_to_num(across), np.nan_to_num(down)
    degrees = np.round(np.degrees(np.arctan2(down, across))) % 360
    straight = np.round(degrees / 90) * 90
    turned = np.where(np.abs(degrees - straight) <= _STRAIGHT, straight, degrees)
    if len(set(turned.tolist())) > _MOST_ANGLES:
        turned = straight
    return (turned % 360).astype(np.int64)


def _turned(boxes: bulk.Floats, angle: int) -> bulk.Floats:
    """u0, v0, u1, v1 of text that runs at this angle."""
    if angle == 0:
        return boxes
    x0, y0, x1, y1 = boxes.T
    if angle % 90 == 0:
        return np.column_stack({90: (y0, -x1, y1, -x0), 180: (-x1, -y1, -x0, -y0), 270: (-y1, x0, -y0, x1)}[angle])
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    x, y, half = (x0 + x1) / 2, (y0 + y1) / 2, np.minimum(x1 - x0, y1 - y0) / 4
    u, v = x * c + y * s, y * c - x * s
    return np.column_stack((u - half, v - half, u + half, v + half))


def _back(run: Run, angle: int) -> tuple[float, float, float, float]:
    u0, v0, u1, v1 = run.u0, run.v0, run.u1, run.v1
    if angle == 0:
        return u0, v0, u1, v1
    if angle % 90 == 0:
        straight = {0: (u0, v0, u1, v1), 90: (-v1, u0, -v0, u1), 180: (-u1, -v1, -u0, -v0), 270: (v0, -u1, v1, -u0)}
        return straight[angle]
    c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    corners = [(u * c - v * s, u * s + v * c) for u in (u0, u1) for v in (v0, v1)]
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    return min(xs), min(ys), max(xs), max(ys)


def _posts(rulings: list[Ruling], sheet: Sheet, angle: int) -> Posts:
    if angle:
        return Posts(())
    w, h = sheet.width, sheet.height
    return Posts((each.x0 * w, each.y0 * h, each.y1 * h) for each in rulings if each.is_upright)


def _add(layer: TextLayer, run: Run, style: Style, sheet: Sheet, number: int) -> int:
    text = run.text.strip()
    if "  " in text:
        text = _MANY_SPACES.sub(" ", text)
    box = sheet.share(*_back(run, style.angle))
    if not text or box.x1 <= box.x0 or box.y1 <= box.y0:
        return 0
    span = Span(f"s{number}", text, box, size=style.size, is_bold=style.is_bold or run.is_doubled)
    (layer.hidden if style.is_hidden else layer.spans).append(span)
    if style.is_doubted and not style.is_hidden:
        layer.doubted.add(span.id)
    if run.bad >= 3 and run.bad * 2 >= run.count:
        layer.garbled.add(span.id)
    return 1


def _judge(layer: TextLayer, unmapped: float) -> None:
    """Where much of a kind is rubbish, or its letters make no sense together, all of it is."""
    for spans in (layer.spans, layer.hidden):
        letters = sum(len(span.text) for span in spans)
        bad = sum(len(span.text) for span in spans if span.id in layer.garbled)
        sample = " ".join(span.text for span in spans[:400])[:_JUDGED]
        if letters and (bad > letters * 0.3 or is_rubbish(sample, unmapped)):
            layer.garbled.update(span.id for span in spans)
