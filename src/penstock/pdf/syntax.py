"""Parses PDF objects out of any bytes, as leniently as the most lenient reader.

Names have their escapes undone, a key that is given twice keeps both values, what does not belong there is passed
over, and a dictionary without its end ends where the data does. Nothing is resolved here and nothing is refused:
`actions` judges what comes out.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.pdf.names import unescaped

_REGULAR = rb"[^\x00\t\n\x0c\r ()<>\[\]{}/%]"
_SKIP = rb"(?:[\x00\t\n\x0c\r ]++|%[^\r\n]*+)*+"
_REST = rb"(?:(<<|>>|[\[\]{}()]|/" + _REGULAR + rb"*+|<[^<>]*+>?|>|" + _REGULAR + rb"++)|\Z)"
_TOKEN = re.compile(_SKIP + _REST)
# Some readers take further bytes for blanks: PDFium the last two, which occur within names in Chinese too.
_WIDE = re.compile(rb"[\x0b\x80\xff]")
_BLANKS, _WIDE_BLANKS = rb"\x0c\r ", rb"\x0c\r \x0b\x80\xff"
_WIDE_TOKEN = re.compile((_SKIP + _REST).replace(_BLANKS, _WIDE_BLANKS))
_REFERENCE = re.compile(_SKIP + rb"(\d++)" + _SKIP + rb"R")
_WIDE_REFERENCE = re.compile((_SKIP + rb"(\d++)" + _SKIP + rb"R").replace(_BLANKS, _WIDE_BLANKS))
_STREAM = re.compile((_SKIP + rb"stream(?!" + _REGULAR + rb")").replace(_BLANKS, _WIDE_BLANKS))
_COMMENT = re.compile(rb"[\x00\t\n\x0c\r ]*+%")
_IN_STRING = re.compile(rb"[()\\]")
_ESCAPED = re.compile(rb"\\(?:([0-7]{1,3})|(\r\n|[\r\n])|(.)|\Z)|\r\n?", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}
_NUMBER = re.compile(rb"([+-]*)(\d*)[0-9+.-]*")  # readers cut it off where it goes on otherwise
_PLAIN_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)")
_BRACKETS = re.compile((rb"(?:" + _SKIP + rb"(?:[\])}]|>(?!>)))++").replace(_BLANKS, _WIDE_BLANKS))
_ENDS = {b"endobj", b"stream", b"endstream", b"xref", b"trailer", b"startxref", b"obj"}
_HEXADECIMAL = re.compile(rb"<[0-9A-Fa-f\x00\t\n\x0c\r ]*>")
_STRAY = {b">>", b">", b"]", b")", b"}", b"{"}
_R = ord("R")
_DEEPEST = 100
_MOST_VALUES = 64
_MOST_STRAY = 200
_MOST_AGAIN = 200


class Name(str):
    """A name without its slash; empty for a word that is no value at all."""

    __slots__ = ()


class Reference(NamedTuple):
    """An object by its number; readers differ in whether they look at the generation."""

    number: int
    generation: int


@dataclass(slots=True)
class Either:
    """The values of a key that is given more than once."""

    values: list["Value"]


@dataclass(slots=True)
class Stream:
    """A dictionary with data behind it: `contents` gives every stretch of bytes that a reader may take for it."""

    held: dict[str, "Value"]
    contents: Callable[[], list[bytes]]


Value = None | bool | int | bytes | Name | Reference | Either | Stream | list["Value"] | dict[str, "Value"]


@dataclass(slots=True)
class Parsed:
    """One value, and how it was come by."""

    value: Value
    end: int
    is_clean: bool  # nothing was passed over, no comment, every bracket closed, no word that readers may cut in two
    is_whole: bool  # the data did not end within it
    stream_at: int | None = None  # position behind the word `stream`
    streams: list[tuple[dict[str, Value], int]] = field(default_factory=list)  # that, also for dictionaries within
    has_loose_reference: bool = False  # an `R` that does not follow two plain numbers


def parse_object(data: bytes, at: int = 0) -> Parsed:
    """The value that begins at `at`, as behind `1 0 obj`; all of them, where several stand before the end."""
    return _both_ways(data, at, lambda parser: parser.values())


def parse_value(data: bytes, at: int = 0) -> Parsed:
    """The one value that begins at `at`, as in an object stream."""
    return _both_ways(data, at, lambda parser: parser.single())


def _both_ways(data: bytes, at: int, read: "Callable[[_Parser], Value]", stray: int = sys.maxsize) -> Parsed:
    """As written, and where bytes that only PDFium takes for blanks are in it, that way too."""
    parser = _Parser(data, at, stray)
    found = parser.result(read(parser))
    if not _WIDE.search(data, at, found.end):
        return found
    parser = _Parser(data, at, stray, _WIDE_TOKEN)
    other = parser.result(read(parser))
    if other.value == found.value:
        found.has_loose_reference |= other.has_loose_reference
        return found
    return Parsed(
        Either([other.value, found.value]),
        max(found.end, other.end),
        is_clean=False,
        is_whole=found.is_whole and other.is_whole,
        stream_at=found.stream_at or other.stream_at,
        streams=found.streams + other.streams,
        has_loose_reference=found.has_loose_reference or other.has_loose_reference,
    )


def parse_entries(data: bytes, at: int = 0) -> Parsed:
    """The entries of a dictionary from one of its keys on, wherever it begins; given up where it seems to be none."""
    return _both_ways(data, at, lambda parser: parser.dictionary(0), _MOST_STRAY)


class _Nothing:
    """No value where one should be."""


_NOTHING = _Nothing()


class _Parser:
    def __init__(self, data: bytes, at: int, stray: int, token: re.Pattern[bytes] = _TOKEN) -> None:
        self._data, self._at, self._stray, self._token = data, at, stray, token
        self._reference = _REFERENCE if token is _TOKEN else _WIDE_REFERENCE
        self._clean, self._whole = token is _TOKEN, True
        self._loose = False
        self._hexadecimal_end = -1
        self._again = _MOST_AGAIN
        self._streams: list[tuple[dict[str, Value], int]] = []

    def result(self, value: Value) -> Parsed:
        end = self._at
        token = self._next()
        stream_at = self._at if token == b"stream" and isinstance(value, dict) else None
        return Parsed(value, end, self._clean, self._whole, stream_at, self._streams, self._loose)

    def _next(self) -> bytes:
        found = self._token.match(self._data, self._at)
        if found is None or found[1] is None:
            self._at = len(self._data)
            return b""
        if self._clean and _COMMENT.match(self._data, self._at):
            self._clean = False
        self._at = found.end()
        if self._data[self._at : self._at + 1] == b"\x00":
            self._clean = False  # for pdfminer it is a part of the word
        return found[1]

    def single(self) -> Value:
        value = self.value(0)
        return None if isinstance(value, _Nothing) else value

    def values(self) -> Value:
        """Some readers take the first, some the last."""
        found: list[Value] = []
        while len(found) < _MOST_VALUES:
            before = self._at
            token = self._next()
            if not token or token in _ENDS:
                self._at, self._whole = before, self._whole and bool(token)
                break
            if token in _STRAY:
                self._clean = False
                continue
            self._at = before
            value = self.value(0)
            if not isinstance(value, _Nothing):
                found.append(value)
        else:
            self._at, self._whole = len(self._data), False
        self._clean = self._clean and len(found) == 1
        return found[0] if len(found) == 1 else Either(found) if found else None

    def value(self, depth: int) -> "Value | _Nothing":
        before = self._at
        token = self._next()
        if not token:
            self._whole = self._clean = False
            return _NOTHING
        first = token[0]
        if first in b"/(":
            return Name(unescaped(token[1:])) if first == 0x2F else self._string()
        if token == b"<<" or first == 0x5B:
            if depth > _DEEPEST:
                self._clean = False
                return None
            return self.dictionary(depth + 1) if token == b"<<" else self._array(depth + 1)
        if first in b">])}" or token in _ENDS:
            self._at, self._clean = before, False
            return _NOTHING
        return self._hexadecimal(token) if first == 0x3C else self._word(token)

    def _word(self, token: bytes) -> Value:
        if found := _NUMBER.fullmatch(token):
            number = _integer(found[2])
            self._clean = self._clean and _PLAIN_NUMBER.fullmatch(token) is not None
            reference = self._reference.match(self._data, self._at) if token.isdigit() else None
            if reference is None:
                return -number if found[1].startswith(b"-") else number
            self._at = reference.end()
            return Reference(number, _integer(reference[1]))
        self._heed_loose(token)
        if token in (b"true", b"false"):
            return token == b"true"
        if token == b"null":
            return None
        self._clean = False
        if token[0] in b"+-.0123456789":
            return None
        self._stray -= 1
        return Name()

    def _heed_loose(self, token: bytes) -> None:
        """Some readers take reals, signs alone or strings for the numbers of a reference."""
        if token[-1] == _R and not token[:-1].strip(b"0123456789+-."):
            self._loose = True

    def dictionary(self, depth: int) -> dict[str, Value]:
        held: dict[str, Value] = {}
        while True:
            before = self._at
            token = self._next()
            if token == b">>":
                if found := _STREAM.match(self._data, self._at):
                    self._streams.append((held, found.end()))
                if self._at - 1 != self._hexadecimal_end:
                    return held
                self._at -= 1  # the first of the two may have been the end of a string
                self._clean = self._whole = False
                continue
            if not token or token == b"endobj":
                self._whole = self._whole and bool(token)
                self._at, self._clean = before, False
                return held
            if token[0] == 0x2F:
                self._entry(held, unescaped(token[1:]), depth)
            elif token[0] in b"[(<":
                self._stray_value(held, before, depth)
            else:
                self._heed_loose(token)
                self._clean = False
                self._stray -= 1
                if self._stray < 0:
                    self._at, self._whole = len(self._data), False
                    return held

    def _entry(self, held: dict[str, Value], key: str, depth: int) -> None:
        """Put the value that follows under its key.

        pdfminer takes every two values for a pair, so behind whatever readers count differently a key of ours may be
        a value for it: from there on a name that is a value is read once more, as a key.
        """
        before = self._at
        value = self.value(depth)
        is_behind = isinstance(value, _Nothing) and self._pass_brackets()
        if is_behind:
            before = self._at
            value = self.value(depth)
        if value is None or isinstance(value, _Nothing):
            return
        _put(held, key, value)
        if is_behind or (isinstance(value, Name) and not self._clean):
            self._at = before

    def _pass_brackets(self) -> bool:
        """Go on behind brackets that end nothing, in the place of a value, if there are any."""
        found = _BRACKETS.match(self._data, self._at)
        if found is None or not self._again:
            return False
        self._again -= 1
        self._at = found.end()
        return True

    def _stray_value(self, held: dict[str, Value], start: int, depth: int) -> None:
        """A value without a key: some readers make up one, some pass over the bracket alone and go on within."""
        within, self._at, self._clean = self._at, start, False
        self._again -= 1
        if self._again < 0:
            self._at, self._whole = len(self._data), False
            return
        value = self.value(depth)
        if value is not None and not isinstance(value, _Nothing):
            _put(held, "", value)
        self._at = min(self._at, within)

    def _array(self, depth: int) -> list[Value]:
        made: list[Value] = []
        within = self._at
        while True:
            clean = self._clean
            value = self.value(depth)
            if not isinstance(value, _Nothing):
                made.append(value)
                continue
            before, self._clean = self._at, clean
            token = self._next()
            if token == b"]":
                return made
            self._clean = False
            if not token or token == b">>" or token in _ENDS:
                self._again -= 1  # without its end: what it seemed to hold may be entries around it
                self._at = within if self._again >= 0 else before
                return made

    def _string(self) -> bytes:
        start, depth, at = self._at, 1, self._at
        while depth:
            found = _IN_STRING.search(self._data, at)
            if found is None:
                self._at = len(self._data)
                self._whole = self._clean = False
                return _plain(self._data[start:])
            at = found.end()
            letter = found[0]
            if letter == b"\\":
                at += 1
            else:
                depth += 1 if letter == b"(" else -1
        self._at = at
        return _plain(self._data[start : at - 1])

    def _hexadecimal(self, token: bytes) -> bytes:
        """Letters that are no digits are passed over; or it was none, and what it seemed to hold comes next."""
        digits = re.sub(rb"[^0-9A-Fa-f]", b"", token)
        if not _HEXADECIMAL.fullmatch(token):
            self._at -= len(token) - 1
            self._hexadecimal_end = self._data.find(b">", self._at) + 1
            self._clean = False
        return bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode())


def _put(held: dict[str, Value], key: str, value: Value) -> None:
    if key not in held:
        held[key] = value
        return
    before = held[key]
    held[key] = Either([*(before.values if isinstance(before, Either) else [before]), value])


def _integer(digits: bytes) -> int:
    return int(digits.lstrip(b"0")[:18] or b"0")


def _plain(raw: bytes) -> bytes:
    return _ESCAPED.sub(_unescape, raw) if b"\\" in raw or b"\r" in raw else raw


def _unescape(found: re.Match[bytes]) -> bytes:
    if found[1]:
        return bytes([int(found[1], 8) % 256])
    if found[3]:
        return _ESCAPES.get(found[3], found[3])
    return b"" if found[2] or found[0] == b"\\" else b"\n"
