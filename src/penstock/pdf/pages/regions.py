"""Which parts of a page must be recognised, as the file does not say what is written there.

Rubbish in the text layer, pictures that look written on and have no text over them, and pages without text but with
ink. Hidden text counts as the text of a scan when it stands on the scan's ink; hidden text elsewhere is nobody's to
read and is left out: a page must not say to a program what it does not say to a person.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.pdf.pages.ink import Ink
from penstock.pdf.pages.model import Box, Image, Span
from penstock.pdf.pages.text import TextLayer
from penstock.pdf.rendering import ink_of

GARBLED = "garbled_text_layer"
HIDDEN_LAYER = "hidden_text_layer"  # used: it is a scan's
HIDDEN_TEXT = "hidden_text_left_out"
_WHOLE = Box(0.0, 0.0, 1.0, 1.0)
_FEW = 10  # letters: fewer make no text
_NO_INK = 0.0005
_SIZEABLE = 0.02  # of the page
_SPARSE = 60  # letters on a whole page that still leave it a picture
_STANDING = 0.6
_ROOM = 0.01


@dataclass(slots=True)
class Verdict:
    """`spans` are the page's text. Those of `garbled` are to be dropped where `needs_ocr` was recognised."""

    spans: list[Span] = field(default_factory=list)
    needs_ocr: list[Box] = field(default_factory=list)
    garbled: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hidden_used: bool = False


class Regions:
    """One page under judgement. It is drawn only when its lists leave a doubt."""

    def __init__(self, page: Any, layer: TextLayer, images: Sequence[Image], picture_share: float) -> None:
        self._page, self._layer = page, layer
        self._large = [image.box for image in images if _area(image.box) >= _SIZEABLE]
        self._pictures = [box for box in grouped(self._large) if _area(box) >= picture_share]

    @cached_property
    def _ink(self) -> Ink:
        return Ink(self._page)

    def verdict(self) -> Verdict:
        self._take_out_unseen()
        made = Verdict(list(self._layer.spans))
        good = [span for span in made.spans if span.id not in self._layer.garbled]
        self._judge_hidden(made, good)
        self._judge_garbled(made)
        read = good + (self._of_scans if made.hidden_used else [])
        if made.needs_ocr != [_WHOLE]:
            self._judge_pictures(made, read)
        return made

    def _take_out_unseen(self) -> None:
        """White on white, see-through, or on a layer that is switched off: hidden by other means."""
        layer = self._layer
        unseen = {span.id for span in layer.spans if span.id in layer.doubted and not self._ink.shows(span)}
        if unseen:
            layer.hidden += [span for span in layer.spans if span.id in unseen]
            layer.spans = [span for span in layer.spans if span.id not in unseen]

    @cached_property
    def _of_scans(self) -> list[Span]:
        usable = [span for span in self._layer.hidden if span.id not in self._layer.garbled]
        return [span for span in usable if any(_holds(box, span) for box in self._large)]

    def _judge_hidden(self, made: Verdict, good: list[Span]) -> None:
        hidden = self._layer.hidden
        if not hidden:
            return
        count = _letters(self._of_scans)
        seen_there = _letters([span for span in good if any(_holds(box, span) for box in self._large)])
        if count < _FEW or seen_there * 2 > count:
            on_scan = any(_holds(box, span) for span in hidden for box in self._large)
            rubbish = on_scan and any(span.id in self._layer.garbled for span in hidden)
            made.warnings.append(GARBLED if rubbish else HIDDEN_TEXT)
            return
        if self._ink.share_of_standing(self._of_scans) < _STANDING:
            made.warnings.append(GARBLED)
            return
        made.spans += self._of_scans
        made.hidden_used = True
        made.warnings.append(HIDDEN_LAYER)
        if len(self._of_scans) < len(hidden):
            made.warnings.append(HIDDEN_TEXT)

    def _judge_garbled(self, made: Verdict) -> None:
        spans = [span for span in made.spans if span.id in self._layer.garbled]
        if _letters(spans) < _FEW:
            return
        made.garbled = [span.id for span in spans]
        if GARBLED not in made.warnings:
            made.warnings.append(GARBLED)
        alone = len(spans) == len(made.spans)
        made.needs_ocr = [_WHOLE] if alone else grouped([_grown(span.box) for span in spans])

    def _judge_pictures(self, made: Verdict, read: list[Span]) -> None:
        if _letters(read) < _FEW:
            if self._large or ink_of(self._page) > _NO_INK:
                made.needs_ocr = [_WHOLE]
            return
        for box in self._pictures:
            over = [span for span in read if _holds(box, span)]
            bare = _letters(over) <= _SPARSE * _area(box) or (made.hidden_used and self._is_half_read(box, over))
            if bare and self._ink.has_text(box, over):
                made.needs_ocr.append(box)

    def _is_half_read(self, box: Box, over: list[Span]) -> bool:
        """A hidden layer that leaves most of its scan unread."""
        return sum(_area(span.box) for span in over) < 0.02 * _area(box)


def grouped(boxes: Sequence[Box]) -> list[Box]:
    """Boxes that touch become one; a scan often comes in strips."""
    made: list[Box] = []
    for box in sorted(boxes, key=lambda box: (box.y0, box.x0)):
        whole, apart = box, []
        for other in made:
            if _touch(whole, other):
                whole = whole.union(other)
            else:
                apart.append(other)
        made = [*apart, whole]
    return made


def _touch(a: Box, b: Box) -> bool:
    room = _ROOM / 2
    return a.x0 <= b.x1 + room and b.x0 <= a.x1 + room and a.y0 <= b.y1 + room and b.y0 <= a.y1 + room


def _grown(box: Box) -> Box:
    room = _ROOM
    return Box(max(0.0, box.x0 - room), max(0.0, box.y0 - room), min(1.0, box.x1 + room), min(1.0, box.y1 + room))


def _area(box: Box) -> float:
    return max(0.0, box.width) * max(0.0, box.height)


def _holds(box: Box, span: Span) -> bool:
    x, y = (span.box.x0 + span.box.x1) / 2, (span.box.y0 + span.box.y1) / 2
    return box.x0 <= x <= box.x1 and box.y0 <= y <= box.y1


def _letters(spans: Sequence[Span]) -> int:
    return sum(len(span.text) for span in spans)
