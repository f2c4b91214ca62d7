"""What was measured of a page: plain values that cross from the sandbox and are kept beside the page."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageMetrics:
    """One page as it is shown, rotation applied. Text and images outside the page's box do not count."""

    number: int  # from 1
    width: float = 0.0  # points
    height: float = 0.0
    rotation: int = 0  # degrees, clockwise
    text_chars: int = 0  # letters that are seen, without spaces
    hidden_chars: int = 0  # letters of an invisible layer, such as earlier OCR leaves over a scan
    image_count: int = 0
    image_share: float = 0.0  # of the page's area, 0 to 1
    ink: float | None = None  # share of the page that differs from its background; None: was not needed
    readable: bool = True  # False: PDFium could not load the page


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """A picture of a page."""

    data: bytes
    width: int
    height: int
