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


def _attached(*streams: int) -> bytes:
    """A file within the file; the objects of these numbers are streams where a dictionary should be."""
    bodies = {
        5: "/EmbeddedFiles 6 0 R",
        6: "/Kids[7 0 R]" if 7 in streams else "/Names[(evil.exe) 8 0 R]",
        7: "/Names[(evil.exe) 8 0 R]",
        8: "/Type/Filespec/UF(evil.exe)/EF 9 0 R",
        9: "/F 10 0 R/UF 10 0 R",
    }
    objects: dict[int, str | bytes] = {
        number: stream(b"x", body, packed=False) if number in streams else f"<<{body}>>"
        for number, body in bodies.items()
    }
    return document("/Names 5 0 R", objects={**objects, 10: stream(b"MZ", "/Type/EmbeddedFile")})


_OPENS = "/S/URI/URI(http://example.com/x)"
STREAMS_AS_DICTIONARIES = {
    "the node of a tree, and /EF": (_attached(6, 9), "SECURITY_EMBEDDED_FILE"),
    "all of them": (_attached(5, 6, 7, 8, 9), "SECURITY_EMBEDDED_FILE"),
    "an action that opens an address": (
        document("/OpenAction 5 0 R", objects={5: stream(b"x", _OPENS)}),
        "SECURITY_URI_ACTION",
    ),
    "additional actions": (
        document("/AA 6 0 R", objects={5: f"<<{_OPENS}>>", 6: stream(b"x", "/WC 5 0 R")}),
        "SECURITY_URI_ACTION",
    ),
    "the next action": (
        document("/OpenAction<</S/GoTo/D[3 0 R/Fit]/Next 5 0 R>>", objects={5: stream(b"x", _OPENS)}),
        "SECURITY_URI_ACTION",
    ),
    "scripts of the document": (
        document("/Names<</JavaScript 5 0 R>>", objects={5: stream(b"x", "/Names[(a) 6 0 R]"), 6: "<<>>"}),
        "SECURITY_JAVASCRIPT_EMBEDDED",
    ),
    "the file that holds a stream's data": (
        document(objects={5: stream(b"x", "/F 6 0 R"), 6: stream(b"x", "/UF(a)")}),
        "SECURITY_REMOTE_ACTION",
    ),
}
