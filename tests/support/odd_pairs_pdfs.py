"""PDFs in whose dictionaries readers pair keys and values differently, or see different blanks between them."""

from tests.support.forked_pdfs import entries_of, forked
from tests.support.pdfs import JS, document

# Each stands where pdfminer, which takes every two values for a pair, counts one more or one less than others do.
_UNEVEN = {
    "a bracket for a value": "<</S]/X/JS(x)>>",
    "a brace for a value": "<</S}/X/JS(x)>>",
    "half an end for a value": "<</S > /X/JS(x)>>",
    "brackets for a value": "<</S ]\n} > /X/JS(x)>>",
    "a launch behind a bracket": "<</S]/Launch/F(x)>>",
    "a launch behind half an end": "<</S >/Launch/F(x)>>",
    "a word for a key": "<</S/Y foo/X/JS(x)>>",
    "a word for the first key": "<<foo/X/JS(x)/S/Y>>",
    "a parenthesis for a key": "<</S/Y)/X/JS(x)>>",
    "a number for a key": "<</S/Y/A 3 0 R 3/X/JS(x)>>",
    "null for a key": "<</S/Y null/X/JS(x)>>",
    "true for a key": "<</S/Y true/X/JS(x)>>",
    "a string for a key": "<</S/Y(a)/X/JS(x)>>",
    "an array for a key": "<</S/Y[]/X/JS(x)>>",
    "a dictionary for a key": "<</S/Y<<>>/X/JS(x)>>",
    "a number with two points": "<</S/Y/Z 1.2.3/X/JS(x)/Q 1>>",
    "a number with a sign within": "<</S/Y/Z -.5-3/X/JS(x)/Q 1>>",
    "a number with letters": "<</S/Y/Z 12abc/X/JS(x)/Q 1>>",
    "a sign alone": "<</S/Y/A +/X/JS(x)>>",
    "a digit that is none": "<</S/Y/Q <zz /X/JS(x)>>",
    "a zero within a name": "<</S/Y/Z\x005/X/JS(x)>>",
}
# The byte 11, which qpdf, pypdf and pdfminer take for a blank.
_TABS = {
    "a script": "<</S\x0b/JavaScript\x0b/JS\x0b(x)>>",
    "a script with a kind of its own": "<</S /Y\x0b/JS\x0b(x)>>",
    "a launch": "<</S\x0b/Launch\x0b/F\x0b(x)>>",
    "a launch on Windows": "<</S/Launch/Win\x0b<</F(x)>>>>",
    "an address": "<</S\x0b/URI\x0b/URI\x0b(javascript:x)>>",
}
_LINK = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Annots[<</Subtype/Link/Rect[0 0 9 9]/A %s>>]>>"


def _linked(action: str) -> bytes:
    return document(objects={3: _LINK % action})


ODD_PAIRS = {name: document(f"/OpenAction {body}") for name, body in _UNEVEN.items()} | {
    f"vertical tabs, {name}": document(f"/OpenAction {body}") for name, body in _TABS.items() if name != "an address"
}
# What the readers that we have at hand see nothing in, or only what PDFium says of the kind of an action.
MORE_ODD_PAIRS = {
    f"vertical tabs in a second object, {name}": entries_of(forked(body), b"\n") for name, body in _TABS.items()
} | {
    "an object's header with vertical tabs": entries_of(
        forked().replace(b"5 0 obj\n<</S/JavaScript", b"5\x0b0\x0bobj\x0b<</S/JavaScript"), b"\n"
    ),
    "an object's header with another word": document("/OpenAction 5 0 R", objects={5: JS}).replace(
        b"5 0 obj", b"5 0 fbj"
    ),
    "a launch whose operand has another name": _linked("<</S/Launch/Wi#6ez<</F(a)>>>>"),
    "a launch without an operand": _linked("<</#53/Launch>>"),
    "a launch without an operand, by reference": document(objects={3: _LINK % "5 0 R", 5: "<</S/Launch/G(a)>>"}),
    "another file without an operand": _linked("<</S/GoToR/G(a)>>"),
}
HONEST_PAIRS = {
    "a link with a word too many": _linked("<</S/URI foo/URI(https://example.com)>>"),
    "a link behind a number with two signs": _linked("<</X --5/S/URI/URI(https://example.com)>>"),
    "a thread of the same file": _linked("<</S/Thread/D 0>>"),
    "structure elements named like actions": document(
        "/StructTreeRoot<</K 5 0 R>>", objects={5: "<</S/Launch/P 1 0 R/K[<</S/GoToR/P 5 0 R/Pg 3 0 R>>]>>"}
    ),
    "a title with vertical tabs": document(objects={5: "<</Title(a\x0bb /S\x0b/JavaScript)/X/Y\x0b/Z 1>>"}),
}
