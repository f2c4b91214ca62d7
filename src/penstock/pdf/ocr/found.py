"""What a worker finds in the picture of a page. Loads nothing heavy: the parent process reads these."""

import msgspec

from penstock.pdf.pages.model import Ruling, Span


class Recognised(msgspec.Struct, omit_defaults=True):
    """One page, or the asked-for regions of it.

    Boxes are shares of the upright page with its skew taken out, so that lines and columns stand straight;
    `skew` says by how many degrees, clockwise, the text leans in the picture (see `straighten`).
    """

    width: float  # points, of the upright page
    height: float
    rotation: int = 0  # degrees, counter-clockwise, by which the picture was turned to stand upright
    skew: float = 0.0
    spans: list[Span] = []
    rulings: list[Ruling] = []  # lines drawn on the page
    confidence: float | None = None  # mean over letters, of all that was seen, also of what was too doubtful to keep


class Picture(msgspec.Struct):
    """What a picture file is, before anything is read in it."""

    frames: int  # pages of a TIFF, 1 for all else
    width: int
    height: int
