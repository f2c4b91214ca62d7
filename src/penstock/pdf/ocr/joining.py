"""One page out of what the file says and what was recognised, each piece of text once.

Tables and blocks are made while the page stands straight; then everything is put back to where it is seen, so that a
box shown on a skewed scan lies on its text.
"""

import math
from collections.abc import Sequence

from penstock.pdf.finishing import finish
from penstock.pdf.ocr.found import Recognised
from penstock.pdf.pages.model import Box, Origin, Page, Ruling, Span
from penstock.pdf.pages.reading import PageDraft
from penstock.pdf.steps import LOW_CONFIDENCE

_SAME = 0.5  # share of a recognised span under written text, from which it is that text
_WITHIN = 0.7


def joined(draft: PageDraft, found: Recognised, warn_below: float) -> Page:
    """The draft's page completed."""
    page = draft.page
    turn_page(page, found.rotation)
    kept = [span for span in page.spans if span.id not in set(draft.garbled)]
    straight = [_moved(span, -found.skew, page) for span in kept]
    page.spans = once(straight, found.spans)
    drawn = [_turned_ruling(each, found.rotation) for each in draft.rulings]
    if is_whole(draft.needs_ocr):
        # The file's own lines are exact, but a scan that leans has them only in the picture.
        rulings = drawn if drawn and not found.skew else found.rulings
    else:
        rulings = drawn + found.rulings
    finish(page, rulings)
    lean_back(page, found.skew)
    letters = sum(len(span.text) for span in page.spans)
    recognised = sum(len(span.text) for span in page.spans if span.origin is Origin.OCR)
    page.ocr_share = round(recognised / letters, 4) if letters else 0.0
    if found.confidence is not None and found.confidence < warn_below:
        page.warnings.append(LOW_CONFIDENCE)
    return page


def once(written: Sequence[Span], recognised: Sequence[Span]) -> list[Span]:
    """Both, without what is said twice: written text wins, unless it is but a part of a recognised line."""
    kept = list(written)
    added = []
    for span in recognised:
        over = [other for other in kept if _shared(span.box, other.box) > 0]
        if sum(_shared(span.box, other.box) for other in over) >= _SAME * _area(span.box):
            continue
        inside = {id(other) for other in over if _shared(span.box, other.box) >= _WITHIN * _area(other.box)}
        kept = [other for other in kept if id(other) not in inside]
        added.append(span)
    last = max((int(span.id[1:]) for span in written if span.id[1:].isdigit()), default=0)
    for number, span in enumerate(added, last + 1):
        span.id = f"s{number}"
    return [*kept, *added]


def turn_page(page: Page, degrees: int) -> None:
    """Turn everything on it, counter-clockwise, by a multiple of 90 degrees."""
    if degrees % 360 == 0:
        return
    page.rotation = (page.rotation - degrees) % 360
    if degrees % 180:
        page.width, page.height = page.height, page.width
    for span in page.spans:
        span.box = turned_box(span.box, degrees)
    for image in page.images:
        image.box = turned_box(image.box, degrees)


def turned_box(box: Box, degrees: int) -> Box:
    x0, y0, x1, y1 = box.x0, box.y0, box.x1, box.y1
    match degrees % 360:
        case 90:
            return Box(y0, 1 - x1, y1, 1 - x0)
        case 180:
            return Box(1 - x1, 1 - y1, 1 - x0, 1 - y0)
        case 270:
            return Box(1 - y1, x0, 1 - y0, x1)
        case _:
            return box


def lean_back(page: Page, degrees: float) -> None:
    """Put a page that was worked on straight back to where it is seen."""
    if not degrees:
        return
    page.spans = [_moved(span, degrees, page) for span in page.spans]
    for table in page.tables:
        table.box = _around(table.box, degrees, page)
        for cell in table.cells:
            cell.box = _centred(cell.box, degrees, page)
    pictures = {image.id for image in page.images}  # these never left their place
    for block in page.blocks:
        if block.ref not in pictures:
            block.box = _around(block.box, degrees, page)


def _moved(span: Span, degrees: float, page: Page) -> Span:
    if degrees:
        span.box = _centred(span.box, degrees, page)
    return span


def _centred(box: Box, degrees: float, page: Page) -> Box:
    """The same size about its centre, turned: higher boxes would lie over the lines above and below."""
    x, y = _point((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2, degrees, page)
    return _clipped(x - box.width / 2, y - box.height / 2, x + box.width / 2, y + box.height / 2)


def _around(box: Box, degrees: float, page: Page) -> Box:
    corners = [_point(x, y, degrees, page) for x in (box.x0, box.x1) for y in (box.y0, box.y1)]
    across, down = [x for x, _ in corners], [y for _, y in corners]
    return _clipped(min(across), min(down), max(across), max(down))


def _point(x: float, y: float, degrees: float, page: Page) -> tuple[float, float]:
    """Turned clockwise about the middle of the page."""
    angle = math.radians(degrees)
    right, below = (x - 0.5) * page.width, (y - 0.5) * page.height
    turned = right * math.cos(angle) - below * math.sin(angle), right * math.sin(angle) + below * math.cos(angle)
    return turned[0] / page.width + 0.5, turned[1] / page.height + 0.5


def _clipped(*corners: float) -> Box:
    return Box(*(round(min(1.0, max(0.0, each)), 5) for each in corners))


def _turned_ruling(ruling: Ruling, degrees: int) -> Ruling:
    box = turned_box(Box(*ruling), degrees)
    return Ruling(box.x0, box.y0, box.x1, box.y1)


def is_whole(regions: Sequence[Box]) -> bool:
    return any(box.width >= 0.999 and box.height >= 0.999 for box in regions)


def _shared(a: Box, b: Box) -> float:
    return max(0.0, min(a.x1, b.x1) - max(a.x0, b.x0)) * max(0.0, min(a.y1, b.y1) - max(a.y0, b.y0))


def _area(box: Box) -> float:
    return max(box.width * box.height, 1e-12)
