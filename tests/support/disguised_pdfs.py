"""PDFs whose bytes or types hide what other readers see: encryption of an older section, streams as dictionaries."""

import re

from tests.support.pdfs import document, stream


def _revised(whole: bytes, section: bytes) -> bytes:
    """The section in the place of the only one, and a newest one that leads to it and says /Root alone."""
    start = whole.index(b"xref\n0 ")
    made = whole[:start] + section
    newest = b"xref\n0 0\ntrailer\n<</Size 30/Root 1 0 R/Prev %d>>\nstartxref\n%d\n%%%%EOF\n"
    return made + newest % (start, len(made))


def _encrypted_before(entries: bytes) -> bytes:
    """An older table with a trailer of these entries."""
    whole = document(objects={23: "<</Filter/Standard/V 4/R 4>>"})
    table = re.search(rb"xref\n0 .*(?=trailer)", whole, re.DOTALL)
    return _revised(whole, table[0] + b"trailer\n<<" + entries + b">>\n")


def _encrypted_before_by_stream(entries: str) -> bytes:
    """An older cross-reference stream of these entries."""
    whole = document(objects={23: "<</Filter/Standard/V 4/R 4>>"})
    offsets = {int(each[1]): each.start() for each in re.finditer(rb"(\d+) 0 obj", whole)}
    offsets[25] = whole.index(b"xref\n0 ")
    rows = b"".join(bytes([each in offsets]) + offsets.get(each, 0).to_bytes(4, "big") + b"\x00" for each in range(30))
    body = stream(rows, f"/W[1 4 1]/Size 30{entries}", packed=False)
    return _revised(whole, b"25 0 obj\n" + body + b"\nendobj\n")


ENCRYPTED_BEFORE = {
    "a trailer": _encrypted_before(b"/Size 30/Encrypt 23 0 R"),
    "a trailer with nothing else": _encrypted_before(b"/Encrypt 23 0 R"),
    "a trailer that holds it itself": _encrypted_before(b"/Size 30/Encrypt<</Filter/Standard/V 4/R 4>>"),
    "a cross-reference stream": _encrypted_before_by_stream("/Type/XRef/Encrypt 23 0 R"),
    "a cross-reference stream without a type": _encrypted_before_by_stream("/Encrypt 23 0 R"),
}
