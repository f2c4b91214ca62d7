"""PDFs that hide an action behind words that readers read differently: numbers, long gaps, types that are not said."""

import re
import zlib

from tests.support.forked_pdfs import XML, entries_of
from tests.support.pdfs import document, stream

_SCRIPT = b"7 0 <</S/JavaScript/JS(x)>>"
_DEFLATED = zlib.compress(_SCRIPT)
_ENTRIES = "/Type/ObjStm/N 1/First 4"


def _by_numbers(ref: str, kind: str = "JavaScript", operand: str = "JS") -> bytes:
    """An action whose kind and operand are given by references; `#` is the number."""
    action = f"<</S {ref.replace('#', '9')}/{operand} {ref.replace('#', '8')}>>"
    return document("/OpenAction 7 0 R", objects={7: action, 8: "(x)", 9: f"/{kind}"})


def _xfa(ref: str) -> bytes:
    return document(f"/AcroForm<</XFA {ref}>>", objects={8: stream(XML)})


def _headed(generation: str) -> bytes:
    """Objects 8 and 9 again, behind what the table names, with headers that only some readers take."""
    whole = document("/OpenAction 7 0 R", objects={7: "<</S 9 0 R/JS 8 0 R>>", 8: "null", 9: "/GoTo"})
    more = f"8 {generation} obj\n(x)\nendobj\n9 {generation} obj\n/JavaScript\nendobj\n".encode()
    return _with_more(whole, more)


def _with_more(whole: bytes, more: bytes) -> bytes:
    at = whole.index(b"xref\n0 ")
    made = whole[:at] + more + whole[at:]
    made = re.sub(rb"startxref\n(\d+)", lambda found: b"startxref\n%d" % (int(found[1]) + len(more)), made)
    return entries_of(made, b"\n")


def _unnamed(entries: str = _ENTRIES, between: str = "", line: bytes = b"\n") -> bytes:
    """An object stream that no table names."""
    head = f"11 0 obj\n<<{entries}{between}/Length {len(_DEFLATED)}/Filter/FlateDecode>>stream".encode()
    return _with_more(document("/OpenAction 7 0 R"), head + line + _DEFLATED + b"\nendstream\nendobj\n")


def _listed(entries: str) -> bytes:
    """A cross-reference stream calls object 7 a part of object 11, whatever that says of itself."""
    bodies = {
        1: b"<</Type/Catalog/Pages 2 0 R/OpenAction 7 0 R>>",
        2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        3: b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
        11: f"<<{entries}/Length {len(_DEFLATED)}/Filter/FlateDecode>>stream\n".encode() + _DEFLATED + b"\nendstream",
    }
    made, rows = b"%PDF-1.7\n", {7: (2, 11)}
    for number, body in bodies.items():
        rows[number] = (1, len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows[12] = (1, len(made))
    table = b"".join(bytes([rows.get(each, (0, 0))[0]]) + rows.get(each, (0, 0))[1].to_bytes(4, "big") + b"\x00"
                     for each in range(13))  # fmt: skip
    head = b"12 0 obj\n<</Type/XRef/Size 13/W[1 4 1]/Root 1 0 R/Length %d>>stream\n" % len(table)
    return made + head + table + b"\nendstream\nendobj\nstartxref\n%d\n%%%%EOF\n" % rows[12][1]


def _packets(*packets: bytes) -> bytes:
    names = "".join(f"(a) {number} 0 R" for number in range(5, 5 + len(packets)))
    return document(f"/AcroForm<</XFA[{names}]>>", objects=dict(enumerate(map(stream, packets), 5)))


REFERENCES = [
    "#.0 0 R", "#. 0 R", "# 0.0 R", "# . R", "# + R", "# -0 R", "+# 0 R", "#+1 0 R", "#-1 0 R", "#\x800 R", "# 0\xffR",
    "# 99999999999 R", f"{'0' * 30}# 0 R", "#.%8\n0 R", "#.% 8\r0 R", "# (x) R", "(#) 0 R", "# null R", "#.0 0R",
]  # fmt: skip
ODD_WORDS = (
    {f"reference {ref!a}": _by_numbers(ref) for ref in REFERENCES}
    | {f"form by {ref!a}": _xfa(ref.replace("#", "8")) for ref in REFERENCES}
    | {
        f"{kind} by reals": _by_numbers("#.0 0 R", kind, "F")
        for kind in ("Launch", "SubmitForm", "ImportData", "GoToR", "GoToE")
    }
    | {f"header with {each!r}": _headed(each) for each in ("+0", "0.0", "-0", "0.", ".", "0" * 20)}
    | {
        "reference in an object stream": document(
            "/OpenAction 7 0 R",
            objects={
                8: "(x)",
                9: "/JavaScript",
                11: stream(b"7 0 <</S 9.0 0 R/JS 8.0 0 R>>", _ENTRIES),
            },
        ),
        "reference behind a string that holds an object": document(
            "/OpenAction 7 0 R",
            objects={7: "<</X(5 0 obj endobj)/S 9.0 0 R/JS 8.0 0 R>>", 8: "(x)", 9: "/JavaScript"},
        ),
        "more values than can be looked at": document(
            "/OpenAction 7 0 R", objects={7: "1 " * 70 + "<</S/JavaScript/JS(x)>> 1 1 1"}
        ),
        "a header with a long gap": _headed(" " * 5000 + "0"),
        "a header with a long comment": _headed("%" + "x" * 5000 + "\n0"),
        "a header with a long comment behind": _headed("0 %" + "x" * 5000 + "\n"),
        "a string that ends within the end of a dictionary": document(
            "/OpenAction<</S/JavaScript/X<\n<<1 0>>startxref/JS(x)>>"
        ),
        "file by reals": document(
            "/Names<</EmbeddedFiles 6.0 0 R>>",
            objects={6: "<</Names[(a) 7 0 R]>>", 7: "<</F(a)/EF<</F 8.0 0 R>>>>", 8: stream(b"MZ")},
        ),
        "address opened by itself": document("/OpenAction 7.0 0 R", objects={7: "<</S/URI/URI(http://a.example/)>>"}),
        "address by reals": document("/X<</S/URI/URI 8.0 0 R>>", objects={8: "(javascript:x)"}),
        "3D script by reals": document("/X 7 0 R", objects={7: stream(b"", "/OnInstantiate 8.0 0 R"), 8: stream(b"x")}),
        "object stream, then words": _unnamed(between=" " + "z " * 300),
        "object stream, then strings": _unnamed(between="(a)" * 300),
        "object stream, then a comment": _unnamed(between="%" + "x" * 70_000 + "\n"),
        "object stream, then blanks": _unnamed(between=" " * 70_000),
        "object stream, then an array": _unnamed(between="/P[" + "1 " * 40_000 + "]"),
        "object stream, then a long string": _unnamed(between="/P(" + "x" * 70_000 + ")"),
        "object stream behind a string that holds an object": _unnamed(
            "/X(5 0 obj endobj)" + _ENTRIES, between=" z" * 300
        ),
        "object stream with a long first line": _unnamed(line=b" " * 1100 + b"\n"),
        "object stream with a longer first line": _unnamed(line=b" " * 9000 + b"\n"),
        "object stream that begins at a real": _unnamed("/Type/ObjStm/N 1/First 4.0"),
        "signs in names": document("/OpenAction<</S/Java" + "#" * 200 + "Script/J" + "#" * 200 + "S(x)>>"),
        "very many signs in names": document("/OpenAction<</S/Java" + "#" * 9000 + "Script/J" + "#" * 9000 + "S(x)>>"),
        "a table names a stream without a first": _listed("/N 1"),
        "a table names a stream of another type": _listed("/Type/Foo/N 1/First 4.0"),
        "a table names a stream with a comment": _listed("/N 1/First%\n4"),
        "XFA in UTF-16 around plain letters": _packets(
            b"\xfe\xff" + "<a>".encode("utf-16-be"), b"<script>x(1)</script>   ", "</a>".encode("utf-16-be")
        ),
    }
)  # fmt: skip

HONEST_WORDS = {
    "a title with an R": document(objects={5: "<</Title(Model 8.0 0 R 9.5 R)/Next 3 0 R>>"}),
    "a title with an R, in an object stream": document(objects={5: stream(b"7 0 <</Title(8.0 0 R)>>", _ENTRIES)}),
    "a page with an R": document(objects={5: stream(b"BT 1.0 0 R (5.0 0 R) Tj ET", packed=False)}),
    "references in every form": document(
        objects={
            5: "[3 0 R 3  0  R 3\n0\nR 3\t0 R]",
            6: "<</A[3 0 R]/B 3%x\n0 R/C(%)/D 3\n0 R>>",
            7: "[1.5 -2 .3 3 0 R]",
        }
    ),
    "a page about object streams": document(
        objects={5: stream(b"/Type/ObjStm/First 4 " * 40 + b"z " * 300, packed=False)}
    ),
    "a table and its object stream": _listed(_ENTRIES).replace(
        _DEFLATED, zlib.compress(b"7 0 <</S/GoTo/D[3 0 R]>>  ").ljust(len(_DEFLATED), b"\n")
    ),
}  # fmt: skip
