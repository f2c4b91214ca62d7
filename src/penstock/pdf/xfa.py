"""Scripts in XFA, the XML that a form may carry beside its fields."""

import re
from collections.abc import Iterator
from contextlib import suppress

from pikepdf import PdfError, Stream, String

from penstock.pdf import codes
from penstock.pdf.inflating import TooManyFilters, pieces_of
from penstock.pdf.reading import elements_of

_READ_AT_MOST = 64 << 20
_SCRIPT = re.compile(r"<(?:[\w.-]+:)?script[\s/>]", re.IGNORECASE)
_SUBMIT = re.compile(r"<(?:[\w.-]+:)?submit[\s/>]", re.IGNORECASE)
_CONNECTION = re.compile(r"<(?:[\w.-]+:)?(?:wsdlConnection|xmlConnection|xsdConnection)[\s/>]", re.IGNORECASE)
_ENCODING = re.compile(r"<\?xml[^>]{0,200}encoding\s*=\s*[\"']([^\"']{1,40})", re.IGNORECASE)
_PLAIN = {"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "windows-1252", "utf-16", "utf-16le", "utf-16be"}


def scripts_in_xfa(packets: object) -> Iterator[tuple[str, str]]:
    """Packets may cut the XML anywhere, so they are read as one. XML that can hide a word is as bad as the word."""
    data = _data(packets)
    # In UTF-16 every other byte of plain words is zero; dropping zeros reads all encodings that we know alike.
    text = data.replace(b"\x00", b"").decode("latin-1")
    encoding = _ENCODING.search(text)
    if _SCRIPT.search(text):
        yield codes.JAVASCRIPT, "a script in an XFA form"
    elif "<!ENTITY" in text.upper() or (encoding and encoding[1].lower() not in _PLAIN):
        yield codes.JAVASCRIPT, "an XFA form that could hide scripts"
    elif len(data) >= _READ_AT_MOST:
        yield codes.JAVASCRIPT, "an XFA form too large to be searched for scripts"
    if _SUBMIT.search(text):
        yield codes.SUBMIT, "an XFA form that sends its data"
    if _CONNECTION.search(text):
        yield codes.REMOTE, "an XFA form that calls a server"


def _data(packets: object) -> bytearray:
    data = bytearray()
    for packet in elements_of(packets):
        if isinstance(packet, String):
            continue  # in an array, the packets' names
        if isinstance(packet, Stream):
            data += _content(packet, _READ_AT_MOST - len(data))
    return data


def _content(stream: Stream, most: int) -> bytes:
    """With parameters (a predictor, another LZW) only qpdf's decoding gives the words back; it bounds itself."""
    if "/DecodeParms" in stream.stream_dict or "/DP" in stream.stream_dict:
        with suppress(PdfError):
            return stream.read_bytes()[:most]
    data = bytearray()
    try:
        for piece in pieces_of(stream):
            data += piece[: max(0, most - len(data))]
            if len(data) >= most:
                break
    except TooManyFilters:
        pass  # reported where streams are weighed
    return bytes(data)
