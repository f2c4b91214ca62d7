"""Where in a document an object belongs, in words: "page 3, annotation 2". Only built when there is an issue to tell.

From the catalogue, pages and annotations outwards: an object belongs to whatever reaches it first.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator

from pikepdf import Array, Dictionary, Object, Pdf, Stream

from penstock.pdf.findings import Issue
from penstock.pdf.nesting import Leaf
from penstock.pdf.reading import Reference, elements_of, reference_of

_VISITS = 50_000
_OF_THE_CATALOGUE = {
    "/Outlines": "bookmarks",
    "/AcroForm": "form",
    "/Names": "name tree",
    "/OpenAction": "opening action",
    "/AA": "document action",
    "/StructTreeRoot": "structure tree",
}
_OBJECT = re.compile(r"object (\d+)")


def with_places(issues: Iterable[Issue], pdf: Pdf, leaves: list[Leaf]) -> list[Issue]:
    """The same issues; those at an object also say where in the document that is."""
    listed = list(issues)
    wanted = {int(found[1]) for each in listed if (found := _OBJECT.match(each.place))}
    names = _names(pdf, leaves, wanted) if wanted else {}
    return [_named(each, names) for each in listed]


def _named(issue: Issue, names: dict[int, str]) -> Issue:
    found = _OBJECT.match(issue.place)
    if found is None:
        return issue
    where = names.get(int(found[1]), "not reached from any page")
    return Issue(issue.code, f"{where} ({issue.place})", issue.detail)


def _names(pdf: Pdf, leaves: list[Leaf], wanted: set[int]) -> dict[int, str]:
    names: dict[int, str] = {}
    seen: set[Reference] = set()
    waiting = deque(_starts(pdf, leaves))
    left = _VISITS
    while waiting and wanted and left:
        left -= 1
        value, name = waiting.popleft()
        reference = reference_of(value)
        if reference is not None:
            if reference in seen:
                continue
            seen.add(reference)
            if reference[0] in wanted:
                names[reference[0]] = name
                wanted.discard(reference[0])
        waiting += ((each, name) for each in _inner(value))
    return names


def _starts(pdf: Pdf, leaves: list[Leaf]) -> Iterator[tuple[object, str]]:
    for number, leaf in enumerate(leaves, 1):
        for index, annotation in enumerate(elements_of(leaf.page.get("/Annots")), 1):
            yield annotation, f"page {number}, annotation {index}"
    for number, leaf in enumerate(leaves, 1):
        yield leaf.page, f"page {number}"
    for key, name in _OF_THE_CATALOGUE.items():
        yield pdf.Root.get(key), name
    yield pdf.Root, "catalogue"


def _inner(value: object) -> list[object]:
    if isinstance(value, Array):
        return [each for each in value if isinstance(each, Object)]
    if isinstance(value, Stream):
        value = value.stream_dict
    if not isinstance(value, Dictionary):
        return []
    return [each for key, each in value.items() if key != "/Parent" and isinstance(each, Object)]
