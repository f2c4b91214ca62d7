"""Undoes the escapes in names, `/J#53` for `/JS`, as readers do: they differ where the escape is damaged."""

import re

_PAIR = re.compile(rb"#(..)", re.DOTALL)
_DIGITS = re.compile(rb"#([0-9A-Fa-f]{0,2})")
_THAT_MATTER = frozenset({
    "S", "JS", "JavaScript", "OnInstantiate", "XFA", "Launch", "SubmitForm", "ImportData", "GoToR", "GoToE", "Thread",
    "RichMediaExecute", "OpenAction", "AA", "A", "EF", "EmbeddedFiles", "F", "UF", "FS", "URL", "Ref", "Win", "Mac",
    "Unix", "DOS", "CMD", "TA", "D", "T", "URI", "Base", "Next", "Names", "Kids", "Encrypt", "Root", "ObjStm", "First",
    "N", "Type", "Length", "Filter", "DecodeParms", "XRef", "W", "Index", "Size", "FlateDecode", "Fl", "ASCII85Decode",
    "A85", "ASCIIHexDecode", "AHx", "LZWDecode", "LZW", "RunLengthDecode", "RL", "Predictor", "Columns", "Colors",
    "EarlyChange",
})  # fmt: skip


def unescaped(raw: bytes) -> str:
    """A name with `#xx` undone. Where the two letters are no digits, readers differ: a name that matters wins."""
    if b"#" not in raw:
        return raw.decode("latin-1")
    read = [_PAIR.sub(_by_pair, raw).decode("latin-1"), _DIGITS.sub(_by_digits, raw).decode("latin-1")]
    return read[1] if read[1] in _THAT_MATTER else read[0]


def _by_pair(found: re.Match[bytes]) -> bytes:
    """PDFium: a digit that is none counts as 0."""
    digits = [int(chr(each), 16) if chr(each) in "0123456789abcdefABCDEF" else 0 for each in found[1]]
    return bytes([digits[0] * 16 + digits[1]])


def _by_digits(found: re.Match[bytes]) -> bytes:
    """pdfminer: as many digits as there are."""
    return bytes([int(found[1], 16)]) if found[1] else b""
