"""PDFs in which readers see different objects: what the table names is harmless, another of that number is not."""

import base64
import re
import zlib

from tests.support.pdfs import JS, document, stream, written

HARMLESS = "<</S/GoTo/D[3 0 R/Fit]>>"
XML = b"<xdp><template><subform><event><script>x()</script></event></subform></template></xdp>"
HARMLESS_XML = b"<xdp><template><subform/></template></xdp>"
_ENTRY = re.compile(rb"(\d{10} \d{5} [nf]) \n")


def _object(number: int, body: str | bytes) -> bytes:
    return b"%d 0 obj\n" % number + (body if isinstance(body, bytes) else body.encode("latin-1")) + b"\nendobj\n"


def forked(
    second: str | bytes = JS, *, number: int = 5, first: str | bytes = HARMLESS, catalogue: str = "/OpenAction 5 0 R"
) -> bytes:
    """Object 5 is there twice; the table, whose offsets are right, leads to the first."""
    whole = document(catalogue, objects={5: first})
    start = whole.index(b"xref\n0 ")
    second = _object(number, second)
    return _moved(whole[:start] + second + whole[start:], len(second))


def _moved(data: bytes, by: int) -> bytes:
    """The same with the table that many bytes later."""
    return re.sub(rb"startxref\n(\d+)", lambda found: b"startxref\n%d" % (int(found[1]) + by), data)


def entries_of(data: bytes, end: bytes) -> bytes:
    return _ENTRY.sub(rb"\1" + end, data)


def without_end(data: bytes) -> bytes:
    return data.replace(b"%%EOF\n", b"")


def updated(data: bytes, number: int, body: str) -> bytes:
    """A further revision in which an object is replaced."""
    start, before = len(data), int(re.findall(rb"startxref\n(\d+)", data)[-1])
    made = data + _object(number, body)
    table = b"xref\n%d 1\n%010d 00000 n \n" % (number, start)
    trailer = b"trailer\n<</Size 9/Root 1 0 R/Prev %d>>\nstartxref\n%d\n%%%%EOF\n" % (before, len(made))
    return made + table + trailer


def packed_object(body: str) -> bytes:
    """An object stream that holds object 5."""
    return stream(f"5 0 {body}".encode(), "/Type/ObjStm/N 1/First 4")


def _as_is(data: bytes) -> bytes:
    return stream(data, "/Type/ObjStm/N 1/First 4/Filter/FlateDecode", packed=False)


def xfa(data: bytes, extra: str) -> bytes:
    return document("/AcroForm<</XFA 5 0 R>>", objects={5: stream(data, extra, packed=False)})


def prefixed(prefix: str, encoding: str = "utf-8") -> bytes:
    text = (
        f'<?xml version="1.0" encoding="{encoding}"?><a xmlns:{prefix}="x"><{prefix}:script>x()</{prefix}:script></a>'
    )
    return text.encode(encoding)


def _ascii85(data: bytes) -> bytes:
    return base64.a85encode(data) + b"~>"


def _odd(data: bytes) -> bytes:
    return data[:-12] + b"\x7f" + data[-12:]


def _led_astray() -> bytes:
    """A table gives object 6 the offset of object 7."""
    made = forked("/Launch", number=7, catalogue="/OpenAction<</S 6 0 R/F(a)>>")
    return made.replace(b"startxref", b"xref\n6 1\n%010d 00000 n \nstartxref" % made.index(b"7 0 obj"))


_BAD_SUM = zlib.compress(XML)[:-1] + b"\x00"
_FLATE, _A85 = "/Filter/FlateDecode", "/Filter/ASCII85Decode"

FORKED = {
    "entries of 19 bytes": entries_of(forked(), b"\n"),
    "entries of 21 bytes": entries_of(forked(), b" \r\n"),
    "entries of 19 bytes, no end mark": without_end(entries_of(forked(), b"\n")),
    "entries of 21 bytes, no end mark": without_end(entries_of(forked(), b" \r\n")),
    "no end mark": without_end(forked()),
    "a second object, the table is right": forked(),
    "a second object before the first": document("/OpenAction 5 0 R", objects={5: HARMLESS}).replace(
        b"%PDF-1.7\n", b"%PDF-1.7\n" + _object(5, JS)
    ),
    "an object behind the end of the file": document("/OpenAction 9 0 R") + _object(9, JS),
    "an object before the header": _object(9, JS) + document("/OpenAction 9 0 R"),
    "an object in a comment's line": forked().replace(b"5 0 obj\n<</S/JavaScript", b"%x\r5 0 obj\n<</S/JavaScript"),
    "an object that a string holds": document(
        "/OpenAction 9 0 R", objects={5: f"<</T(\n9 0 obj\n{JS}\nendobj\n)>>"}
    ),
    "an object that a stream holds": document(
        "/OpenAction 9 0 R", objects={5: stream(b"\n" + _object(9, JS), packed=False)}
    ),
    "an object that an array ends before": document("/OpenAction 9 0 R", objects={5: "[(9 0 obj<<%)]\n"}).replace(
        b"startxref", b"9 0 obj\n" + JS.encode() + b"\nstartxref"
    ),
    "an earlier revision": updated(document(f"/OpenAction {JS}"), 1, "<</Type/Catalog/Pages 2 0 R>>"),
    "a kind of action in another revision": forked(
        "/JavaScript", first="/Named", catalogue="/OpenAction<</S 5 0 R/JS 6 0 R>>"
    ),
    "a script that only another object has": forked(
        "(x)", number=6, catalogue="/OpenAction<</S/JavaScript/JS 6 0 R>>"
    ),
    "an address in another revision": forked(
        "(javascript:x)", first="(https://example.com)", catalogue="/AA<</X<</S/URI/URI 5 0 R>>>>"
    ).replace(b"/AA<</X", b"/AA<</U"),
    "an address opened by itself": forked("<</S/URI/URI(https://example.com)>>"),
    "a file in another revision": forked(
        stream(b"MZ"), first="null", catalogue="/AF[<</F(a)/EF<</F 5 0 R>>>>]"
    ),
    "launch in a second object": forked("<</S/Launch/F(calc.exe)>>"),
    "an object stream that no table names": forked(packed_object(JS), number=6),
    "an object stream of the same number": forked(packed_object(JS), number=5),
    "an object stream with a wrong checksum": forked(
        _as_is(zlib.compress(b"5 0 " + JS.encode())[:-1] + b"\x00"), number=6
    ),
    "an object stream cut off": forked(
        _as_is(zlib.compress(b"5 0 " + JS.encode() + b" " * 5000)[:-6]), number=6
    ),
    "an object stream with a comment": forked(
        packed_object(JS).replace(b"<<", b"<</X(9 0 obj<<%)\n", 1), number=6
    ),
    "names with escapes": forked("<</#53/J#61vaScript/J#53(x)>>"),
    "names with escapes that only PDFium undoes": document("/OpenAction<</S/Im#7zortData/F(a)>>"),
    "a key given twice, once with an escape": document(f"/OpenAction {HARMLESS}/Open#41ction {JS}"),
    "a dictionary without its end": forked("<</S/JavaScript/JS(x)"),
    "a comment between key and value": forked("<</S%" + "x" * 300 + "\n/JavaScript%\n/JS%\n(x)>>"),
    "blanks between key and value": forked("<</S" + " " * 9000 + "/JavaScript/JS(x)>>"),
    "bytes that are blanks for PDFium alone": document("/OpenAction<</S\x80/Launch\xff/F\x80(a)/X\x80y/Z>>"),
    "stream within a dictionary": document("/OpenAction<</X<<>>stream\nendstream/S/Launch/F(a)>>"),
    "a string in the place of a key": forked("<</X 1(/S/Launch/F(a)>>"),
    "a first object that is given twice": forked(
        packed_object(JS).replace(b"/First 4", b"/First/Named/First 4"), number=6
    ),
    "an object stream with a wrong offset": forked(packed_object(JS).replace(b"/First 4", b"/First 2"), number=6),
    "an offset that leads to another number": _led_astray(),
    "names with a sign that only pdfminer drops": document("/OpenAction<</#S/#Launch/F(a)>>"),
    "nothing but zeros between": forked("<</S\x00/JavaScript\x00/JS(x)>>").replace(
        b"5 0 obj\n<</S\x00", b"5\x000\x00obj\x00<</S\x00"
    ),
    "a trailer that no section leads to": document().replace(
        b"startxref", b"trailer\n<</Root 1 0 R/X " + JS.encode() + b">>\nstartxref"
    ),
}  # fmt: skip

DAMAGED_XFA = {
    "wrong Adler-32": xfa(_BAD_SUM, _FLATE),
    "no Adler-32": xfa(zlib.compress(XML)[:-4], _FLATE),
    "garbage behind": xfa(zlib.compress(XML) + b"garbage", _FLATE),
    "garbage within": xfa(zlib.compress(XML + b" " * 2000)[:-9] + b"\xff" * 20, _FLATE),
    "line ends before": xfa(b"\r\n" + zlib.compress(XML), _FLATE),
    "no header": xfa(zlib.compress(XML)[2:-4], _FLATE),
    "one odd letter": xfa(_odd(_ascii85(XML)), _A85),
    "one odd letter behind": xfa(_ascii85(XML)[:-2] + b"\x7f~>", _A85),
    "an ASCII85 group that is too large": xfa(_ascii85(XML)[:-2] + b"uuuuu~>", _A85),
    "odd hexadecimal digits": xfa(XML.hex().encode()[:-4] + b"\x00Q0g>", "/Filter/ASCIIHexDecode"),
    "a prefix that is not Latin": xfa(prefixed("имя"), ""),
    "a prefix that is Chinese": xfa(prefixed("前缀"), ""),
    "a prefix that is not Latin, in UTF-16": xfa(prefixed("имя", "utf-16"), ""),
    "an encoding that hides it": xfa(XML.decode().encode("utf-7"), ""),
    "another alphabet of bytes": xfa(("<?xml version='1.0' encoding='cp037'?>" + XML.decode()).encode("cp037"), ""),
    "not XML": xfa(b"<a><b></a>" + XML, ""),
    "a second stream of that number": forked(
        stream(XML), first=stream(HARMLESS_XML), catalogue="/AcroForm<</XFA 5 0 R>>"
    ),
    "a second stream of that number, of a packet": forked(
        stream(b"<a><script/></a>"), first=stream(b"<a/>"), catalogue="/AcroForm<</XFA[(a) 5 0 R]>>"
    ),
    "a predictor that some readers pass over": xfa(
        zlib.compress(XML), _FLATE + "/DecodeParms[<</Predictor 12/Columns 4>>]"
    ),
    "a length that is too short": xfa(zlib.compress(XML), _FLATE).replace(
        b"/Length %d" % len(zlib.compress(XML)), b"/Length 12"
    ),
}  # fmt: skip

# What other readers might take for an action is none in these.
HONEST_FORKS = {
    "two revisions without actions": updated(document(), 1, "<</Type/Catalog/Pages 2 0 R/OpenAction[3 0 R/Fit]>>"),
    "a second harmless object": forked("<</S/GoTo/D[3 0 R/FitH 0]>>"),
    "an object stream that no table names": forked(packed_object("<</Title(/S/JavaScript/JS\\(x\\))>>"), number=6),
    "a title that reads like an action": document(objects={5: "<</Title(<</S/JavaScript/JS\\(x\\)>>)>>"}),
    "a text that reads like an action": document(
        objects={5: stream(b"BT (<</S/JavaScript/JS\\(x\\)>>) Tj ET", packed=False)}
    ),
    "entries of 19 bytes": entries_of(document("/OpenAction[3 0 R/Fit]"), b"\n"),
    "no end mark": without_end(document()),
    "XFA with a wrong checksum and no script": xfa(zlib.compress(HARMLESS_XML)[:-1] + b"\x00", _FLATE),
    "XFA that says script": xfa(b"<a><text>the script is here</text><!-- <script> --></a>", ""),
    "XFA in packets that are documents": document(
        "/AcroForm<</XFA[(a) 5 0 R(b) 6 0 R]>>", objects={5: stream(b"<a/>"), 6: stream(b"<b/>")}
    ),
    "a file written with blanks": written(
        {
            1: "<< /Type /Catalog /Pages 2 0 R /OpenAction 5 0 R /AA << >> >>",
            2: "<< /Kids [ 3 0 R ] /Count 1 >>",
            3: "<< /Type /Page /Parent 2 0 R /MediaBox [ 0 0 9 9 ] >>",
            5: "<< /S /GoTo /D [ 3 0 R /Fit ] >>",
        }
    ),
}  # fmt: skip
