"""Things that contain or repeat each other: the page tree, forms within forms, tiling patterns.

A few hundred bytes can say "draw this ten times" ten times over. Work is counted by multiplying, never by doing,
and each node is looked at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pikepdf import Array, Dictionary, Object, Pdf, Stream

from penstock.pdf import codes
from penstock.pdf.findings import Bounds, Notes
from penstock.pdf.reading import Reference, elements_of, name_of, number_of, numbers_of, reference_of
from penstock.pdf.weighing import Weight

_NODES = 250_000
_DEPTH = 60
_TILES = 100_000_000
_A3 = 842.0 * 1191.0


@dataclass(frozen=True, slots=True)
class Leaf:
    """A page, with what it inherits."""

    page: Object
    resources: object
    box: object


def pages_of(pdf: Pdf, notes: Notes) -> list[Leaf]:
    """The pages in order, by the tree itself: /Count may lie, and a tree may be a circle or share its branches."""
    root = pdf.Root.get("/Pages")
    waiting: list[tuple[object, object, object]] = [(root, None, None)]
    seen: set[Reference] = set()
    leaves: list[Leaf] = []
    visited = 0
    while waiting and visited < _NODES:
        visited += 1
        node, resources, box = waiting.pop()
        if not isinstance(node, Dictionary):
            continue
        resources, box = node.get("/Resources") or resources, node.get("/MediaBox") or box
        kids = node.get("/Kids")
        if not isinstance(kids, Array):
            if node.get("/Type") != "/Pages":
                leaves.append(Leaf(node, resources, box))
            continue
        reference = reference_of(node)
        if reference is not None and reference in seen:
            notes.add(codes.RECURSION, f"object {reference[0]}", "the page tree leads to itself or repeats a branch")
            continue
        if reference is not None:
            seen.add(reference)
        waiting += [(kid, resources, box) for kid in reversed(list(kids)[:_NODES])]
    return leaves


def check_boxes(leaves: list[Leaf], bounds: Bounds, notes: Notes) -> None:
    for number, leaf in enumerate(leaves, 1):
        corners = numbers_of(leaf.box)
        if len(corners) == 4:
            width, height = abs(corners[2] - corners[0]), abs(corners[3] - corners[1])
            if max(width, height) > bounds.max_page_points:
                notes.add(codes.DIMENSIONS_EXCEEDED, f"page {number}", f"a page of {width:g} by {height:g} points")


def images_in_pattern(stream: Stream) -> int:
    """Catalogues may keep their photos as tiles, where no list of a page's images shows them."""
    resources = stream.stream_dict.get("/Resources")
    named = resources.get("/XObject") if isinstance(resources, Dictionary) else None
    if not isinstance(named, Dictionary):
        return 0
    return sum(
        isinstance(each, Stream) and name_of(each.stream_dict, "/Subtype") == "/Image" for each in named.values()
    )


def check_pattern(stream: Stream, place: str, notes: Notes) -> None:
    """How often a tile is laid on a large page, should somebody fill it with this pattern."""
    held = stream.stream_dict
    across, up = number_of(held.get("/XStep")), number_of(held.get("/YStep"))
    matrix = numbers_of(held.get("/Matrix"))
    scale = abs(matrix[0] * matrix[3] - matrix[1] * matrix[2]) if len(matrix) == 6 else 1.0
    tile = abs((across or 0.0) * (up or 0.0)) * scale
    if tile and _A3 / tile > _TILES:
        notes.add(codes.RECURSION, place, f"a pattern that repeats every {across:g} by {up:g} points")


class Drawing:
    """What drawing costs, in bytes of content that are run."""

    def __init__(self, weights: dict[Reference, Weight], bounds: Bounds, notes: Notes) -> None:
        self._weights = weights
        self._most = bounds.max_stream_bytes
        self._notes = notes
        self._known: dict[tuple[Reference, Reference | None], int] = {}
        self._open: set[Reference] = set()
        self._told: set[Reference] = set()

    def check_page(self, number: int, leaf: Leaf) -> None:
        cost = 0
        for content in elements_of(leaf.page.get("/Contents")):
            cost += self._cost(content, leaf.resources, 0)
        if cost > self._most:
            self._notes.add(codes.RECURSION, f"page {number}", "forms that draw forms, beyond any bound")

    def check_form(self, form: object) -> None:
        """Also those that no page draws: annotations have appearances."""
        if isinstance(form, Stream) and self._cost(form, None, 0) > self._most:
            self._tell(form.objgen, "forms that draw forms, beyond any bound")

    def _cost(self, stream: object, inherited: object, depth: int) -> int:
        if not isinstance(stream, Stream):
            return 0
        reference = stream.objgen
        weight = self._weights.get(reference)
        if weight is None or not weight.draws:
            return weight.size if weight else 0
        own = stream.stream_dict.get("/Resources")
        resources = own if isinstance(own, Dictionary) else inherited
        key = (reference, None if own is not None else reference_of(resources))
        if key in self._known:
            return self._known[key]
        if reference in self._open or depth > _DEPTH:
            self._tell(reference, "a form that draws itself" if reference in self._open else "forms nested too deep")
            return 0
        self._open.add(reference)
        cost = weight.size
        for child, times in self._children(weight, resources):
            cost += times * self._cost(child, resources, depth + 1)
        self._open.discard(reference)
        self._known[key] = cost
        return cost

    @staticmethod
    def _children(weight: Weight, resources: object) -> Iterator[tuple[object, int]]:
        named = resources.get("/XObject") if isinstance(resources, Dictionary) else None
        if isinstance(named, Dictionary):
            for name, times in weight.draws.items():
                child = named.get(name)
                if isinstance(child, Stream) and name_of(child.stream_dict, "/Subtype") == "/Form":
                    yield child, times

    def _tell(self, reference: Reference, detail: str) -> None:
        if reference not in self._told:
            self._told.add(reference)
            self._notes.add(codes.RECURSION, f"object {reference[0]}", detail)
