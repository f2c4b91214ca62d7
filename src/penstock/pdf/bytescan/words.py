"""Words in the bytes of a file at which an action, a form or an object stream could be.

The search errs on the side of finding: what it finds is parsed. Honest files hold few of these words outside of
ordinary links, which it passes over.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from penstock.pdf.names import unescaped

_W = rb"[\x00\t\n\x0c\r \x0b\x80\xff]"  # the last three for some readers alone
_END = rb"(?![^\x00\t\n\x0c\r \x0b\x80\xff()<>\[\]{}/%])"
_VALUES = rb"JavaScript|Launch|SubmitForm|ImportData|GoToR|GoToE|Thread|RichMediaExecute"
_KEYS = rb"JS|OnInstantiate|XFA|OpenAction|AA|EF|EmbeddedFiles|UF|FS|Ref|Win|Mac|Unix|CMD|Encrypt"
_NAME_OF_ADDRESS = rb"[^\x00\t\n\x0c\r ()<>\[\]{}/%:#\\]*+[:#\\]"
_WORDS = re.compile(
    rb"/(?:"
    rb"(?P<value>" + _VALUES + rb")" + _END +
    rb"|(?P<key>(?:" + _KEYS + rb")" + _END +
    rb"|S(?:" + _W + rb"{0,16}(?:[%\d\])}]|>(?!>))|" + _W + rb"{17})"
    rb"|F(?:" + _W + rb"{0,16}(?:[(<%\])}]|>(?!>)|\d{1,10}" + _W + rb"{1,16}[\d%])|" + _W + rb"{17})"
    rb"|URI" + _END + rb"(?!" + _W + rb"{0,16}(?:/(?!" + _NAME_OF_ADDRESS + rb")|>>|\((?:https?|mailto):)))"
    rb"|(?P<packed>ObjStm" + _END + rb"|First" + _W + rb"{1,16}\d{1,10}" + _END +
    rb"(?!" + _W + rb"{1,16}\d{1,10}" + _W + rb"{1,16}R))"
    rb"|(?P<table>XRef" + _END + rb")"
    rb"|(?P<escaped>[^\x00\t\n\x0c\r \x0b\x80\xff()<>\[\]{}/%#]{0,40}#[^\x00\t\n\x0c\r \x0b\x80\xff()<>\[\]{}/%]*+)"
    rb")"
)  # fmt: skip
_IS_VALUE = {each.decode() for each in _VALUES.split(b"|")}
_IS_KEY = {*(each.decode() for each in _KEYS.split(b"|")), "S", "F", "URI"}
_IS_PACKED = {"ObjStm", "First"}
_S_BEFORE = re.compile(rb"/(?:S|#53)" + _W + rb"*\Z")


KEY, PACKED, TABLE, ENDLESS = "key", "packed", "table", "endless"
_LONGEST = 4096  # less than chunks of a file overlap by


class Word(NamedTuple):
    """A place to look at."""

    at: int  # of a key, from which on the entries of a dictionary are parsed
    kind: str  # KEY, PACKED for the dictionary of an object stream, TABLE for that of a cross-reference stream; ENDLESS


def find_words(data: bytes) -> Iterator[Word]:
    for found in _WORDS.finditer(data):
        kind, at = found.lastgroup, found.start()
        if kind == "escaped":
            kind = _kind_of(unescaped(found["escaped"])) if len(found["escaped"]) < _LONGEST else ENDLESS
        if kind in (KEY, PACKED, TABLE, ENDLESS):
            yield Word(at, kind)
        elif kind == "value":
            # Of `/S /Launch` the key comes first; as a key of its own the word is looked at too.
            key = _S_BEFORE.search(data, max(0, at - 4096), at)
            if key:
                yield Word(key.start(), KEY)
            yield Word(at, KEY)


def _kind_of(name: str) -> str:
    if name in _IS_VALUE:
        return "value"
    if name in _IS_PACKED:
        return PACKED
    return KEY if name in _IS_KEY else TABLE if name == "XRef" else ""
