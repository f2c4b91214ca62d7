"""PDFs whose bytes or types hide what other readers see: encryption of an older section, streams as dictionaries."""

import random
import re
import struct
import zlib
from collections.abc import Callable

from tests.support.pdfs import JS, document, stream


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


def _rows_above(data: bytes, columns: int = 3) -> bytes:
    """Rows as their differences from the one above, with the letter of that way before each."""
    data += b" " * (-len(data) % columns)
    made, above = b"", bytes(columns)
    for start in range(0, len(data), columns):
        row = data[start : start + columns]
        made += b"\x02" + bytes((this - that) % 256 for this, that in zip(row, above, strict=True))
        above = row
    return made


def _samples(data: bytes, columns: int = 4) -> bytes:
    """Samples of 16 bits, each as its difference from the one to its left."""
    data += b" " * (-len(data) % (2 * columns))
    made = b""
    for start in range(0, len(data), 2 * columns):
        row = struct.unpack(f">{columns}H", data[start : start + 2 * columns])
        made += struct.pack(
            f">{columns}H", *((this - that) % 65536 for this, that in zip(row, (0, *row), strict=False))
        )
    return made


def _packed_by(encode: Callable[[bytes], bytes], entries: str, body: str = JS) -> bytes:
    """Object 5 in an object stream of these entries, which no table names."""
    held = stream(encode(b"5 0 " + body.encode()), f"/Type/ObjStm/N 1/First 4{entries}", packed=False)
    return document("/OpenAction 5 0 R" if body is JS else "/X 5 0 R", objects={6: held})


def _twice(data: bytes) -> bytes:
    return zlib.compress(zlib.compress(_rows_above(data)))


_FLATE, _TWO = "/Filter/FlateDecode", "/Filter[/FlateDecode/FlateDecode]"
_UP, _NONE = "<</Predictor 12/Columns 3>>", "<</Predictor 5/Columns 3>>"

ODDLY_PACKED = {
    "samples of 16 bits, behind a predictor that is none": _packed_by(
        lambda data: zlib.compress(zlib.compress(_samples(data))),
        f"{_TWO}/DecodeParms[{_NONE}<</Predictor 2/Columns 4/BitsPerComponent 16>>]",
    ),
    "a comment in an array": _packed_by(zlib.compress, "/Filter[/FlateDecode%]\n]", "<</A 1>>"),
    "brackets that close nothing": _packed_by(zlib.compress, "/Filter[/FlateDecode]]", "<</A 1>>"),
    "columns given twice": _packed_by(
        lambda data: zlib.compress(_rows_above(data)), f"{_FLATE}/DecodeParms<</Predictor 12/Columns 3/Columns 7>>"
    ),
    "columns given twice, the other way": _packed_by(
        lambda data: zlib.compress(_rows_above(data)), f"{_FLATE}/DecodeParms<</Predictor 12/Columns 7/Columns 3>>"
    ),
    "a predictor given twice": _packed_by(
        lambda data: zlib.compress(_rows_above(data)), f"{_FLATE}/DecodeParms<</Predictor 1/Columns 3/Predictor 12>>"
    ),
    "many values for each parameter": _packed_by(
        lambda data: zlib.compress(_rows_above(data)),
        f"{_FLATE}/DecodeParms<</Predictor 12{''.join(f'/Columns {each}' for each in range(90, 2, -1))}>>",
    ),
    "a predictor that is none, and one that is": _packed_by(_twice, f"{_TWO}/DecodeParms[{_NONE}{_UP}]"),
    "the same by references": document(
        "/OpenAction 5 0 R",
        objects={
            6: stream(
                _twice(b"5 0 " + JS.encode()),
                f"/Type/ObjStm/N 1/First 4{_TWO}/DecodeParms[7 0 R 8 0 R]",
                packed=False,
            ),
            7: _NONE,
            8: _UP,
        },
    ),
    "parameters that are a stream": document(
        "/OpenAction 5 0 R",
        objects={
            6: stream(
                zlib.compress(_rows_above(b"5 0 " + JS.encode())),
                f"/Type/ObjStm/N 1/First 4{_FLATE}/DecodeParms 7 0 R",
                packed=False,
            ),
            7: stream(b"x", "/Predictor 12/Columns 3", packed=False),
        },
    ),
    "samples of 16 bits": _packed_by(
        lambda data: zlib.compress(_samples(data)),
        f"{_FLATE}/DecodeParms<</Predictor 2/Columns 4/BitsPerComponent 16>>",
    ),
    "a parameter that is a string": _packed_by(
        lambda data: zlib.compress(_rows_above(data)), f"{_FLATE}/DecodeParms<</Predictor 12/Columns(3)>>"
    ),
    "colours that are none": _packed_by(
        lambda data: zlib.compress(_rows_above(data)), f"{_FLATE}/DecodeParms<</Predictor 12/Columns 3/Colors 0>>"
    ),
    "more filters than are undone": _packed_by(zlib.compress, f"/Filter[{'/FlateDecode' * 12}]"),
    "a filter that nobody knows": _packed_by(zlib.compress, "/Filter[/Foo/FlateDecode]"),
    "nothing that could be read": _packed_by(lambda _: random.Random(1).randbytes(300), _FLATE),
    "fewer objects than it says": _packed_by(zlib.compress, _FLATE, "<<>>").replace(b"/N 1", b"/N 2"),
    "an object behind its end": _packed_by(lambda data: zlib.compress(data.replace(b"5 0 ", b"5 9 ")), _FLATE, "<<>>"),
}

HONESTLY_PACKED = {
    "plain": _packed_by(lambda data: data, "", "<</A 1>>"),
    "a filter": _packed_by(zlib.compress, _FLATE, "<</A 1>>"),
    "a predictor": _packed_by(lambda data: zlib.compress(_rows_above(data)), f"{_FLATE}/DecodeParms{_UP}", "<</A 1>>"),
    "an array of filters": _packed_by(zlib.compress, "/Filter[/FlateDecode]", "<</A 1>>"),
    "an array with blanks": _packed_by(zlib.compress, "/Filter [ /FlateDecode ] /DecodeParms [ null ]", "<</A 1>>"),
    "arrays of both": _packed_by(
        lambda data: zlib.compress(_rows_above(data)), f"/Filter[/FlateDecode]/DecodeParms[{_UP}]", "<</A[1[2]]>>"
    ),
    "no objects": _packed_by(lambda _: zlib.compress(b""), _FLATE, "<<>>").replace(b"/N 1/First 4", b"/N 0/First 0"),
}


def _linked(address: str) -> bytes:
    link = f"<</Type/Annot/Subtype/Link/Rect[0 0 200 200]/A<</S/URI/URI {address}>>>>"
    return document(page="/Annots[5 0 R]", objects={5: link})


_SCRIPT = "SECURITY_JAVASCRIPT_EMBEDDED"
DISGUISED_LINKS = {
    "a name": (_linked("/javascript:app.alert#281#29"), _SCRIPT),
    "a name behind blanks": (_linked("  \n/javascript:x"), _SCRIPT),
    "a name with escapes alone": (_linked("/#6a#61vascript#3ax"), _SCRIPT),
    "a sign to delete": (_linked("(\x7fjavascript:x)"), _SCRIPT),
    "a blank that does not break": (_linked("(\xa0javascript:x)"), _SCRIPT),
    "a blank without width": (
        _linked(f"<feff{chr(0x200B).encode('utf-16-be').hex()}{'javascript:x'.encode('utf-16-be').hex()}>"),
        _SCRIPT,
    ),
    "a blank without width, in UTF-8": (_linked("(\xe2\x80\x8bjavascript:x)"), _SCRIPT),
    "signs by percent": (_linked("(%6aavascript:x)"), _SCRIPT),
    "a colon by percent": (_linked("(javascript%3Ax)"), _SCRIPT),
    "a program behind a sign to delete": (_linked("(\x7ffile:///etc/passwd)"), "SECURITY_URI_ACTION"),
    "a server": (_linked("(//host/share)"), "SECURITY_REMOTE_ACTION"),
    "a server by two kinds of strokes": (_linked("(/\\\\host/share)"), "SECURITY_REMOTE_ACTION"),
    "a server in a name": (_linked("/\\\\host#2fshare"), "SECURITY_REMOTE_ACTION"),
}
HONEST_LINKS = {
    "https": _linked("(https://example.com/a%3Ab)"),
    "in UTF-8": _linked("(https://example.com/\xe4\xbd\xa0)"),
    "a host": _linked("(www.example.com/javascript:x)"),
    "a path": _linked("(/a/b)"),
    "a name that is none": _linked("/X"),
}
