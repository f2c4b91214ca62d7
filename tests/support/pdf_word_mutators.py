"""Damage to the words of PDFs on which readers disagree: numbers, long gaps, and what an object stream says of itself.

A mutator that finds nothing to change gives the file back as it is.
"""

import random
import re

from tests.support.pdf_mutators import MUTATORS, Mutator, rebuild

_REFERENCE = re.compile(rb"(?<![\d.])(\d{1,6}) (\d) R(?![A-Za-z])")
_HEADER = re.compile(rb"(?<!\d)(\d{1,6}) (\d) (?=obj)")
_NAME = re.compile(rb"/[A-Za-z]{2,20}")
_COUNT = re.compile(rb"/(?:First|N|Length|Size|Predictor|Columns) (\d{1,9})(?= ?[/>])")
_PACKED = re.compile(rb"/(?:Type ?/ObjStm|First \d+|N \d+)")
_TYPE = re.compile(rb"/Type ?/(?:ObjStm|XRef)|/First(?= \d)")
_DATA = re.compile(rb"(?<=stream)\r?\n")
_DICTIONARY = re.compile(
    rb"(?<=obj\n)<<(?![^<>]*/(?:Catalog|Pages?)\b)(?:(?!endobj|stream).){0,2000}>>(?=\nendobj)", re.DOTALL
)


def _changed(data: bytes, found: re.Match[bytes], new: bytes) -> bytes:
    return data[: found.start()] + new + data[found.end() :]


def _odd(number: bytes, chance: random.Random) -> bytes:
    ways = [
        number + b".0", number + b".", b"+" + number, b"-" + number, number + b"+1", number + b"-1", b"0" * 30 + number,
        b"(%s)" % number, number + b"e0", b"--" + number, number + b".9",
    ]  # fmt: skip
    return chance.choice(ways)


def _some(pattern: re.Pattern[bytes], data: bytes, chance: random.Random) -> list[re.Match[bytes]]:
    """One or all, the last first, so that they can be changed in turn."""
    found = list(pattern.finditer(data))[::-1]
    return found if chance.random() < 0.5 or not found else [chance.choice(found)]


def odd_reference(data: bytes, chance: random.Random) -> bytes:
    for found in _some(_REFERENCE, data, chance):
        gap, number, generation = chance.choice([b" ", b" ", b" ", b"\x80", b"\xff", b"%.\n"]), found[1], found[2]
        which = chance.randrange(4)
        if which != 1:
            number = _odd(number, chance)
        if which:
            generation = chance.choice([b".", b"+", b"0.0", b"-0", b"(x)", b"null", b"/X", b"[]", b"9" * 11, b"0."])
        data = _changed(data, found, number + gap + generation + gap + b"R")
    return data


def odd_header(data: bytes, chance: random.Random) -> bytes:
    for found in _some(_HEADER, data, chance):
        number = _odd(found[1], chance) if chance.random() < 0.4 else found[1]
        generation = chance.choice([b"+0", b"0.0", b"-0", b"0.", b".", b"+", b"0" * 20, b"99999999999"])
        data = _changed(data, found, number + b" " + generation + b" ")
    return data


def odd_count(data: bytes, chance: random.Random) -> bytes:
    for found in _some(_COUNT, data, chance):
        start, end = found.span(1)
        data = data[:start] + _odd(found[1], chance) + data[end:]
    return data


def long_gap(data: bytes, chance: random.Random) -> bytes:
    """Much between the entries of an object stream, so that one who looks only so far misses its data."""
    found = chance.choice(list(_PACKED.finditer(data)) or [None])
    ways = [
        b" " + b"z " * 300,
        b"(a)" * 300,
        b"%" + b"x" * 70_000 + b"\n",
        b" " * 70_000,
        b"/P(" + b"x" * 70_000 + b")",
    ]
    ways += [b"/P[" + b"1 " * 35_000 + b"]", b">>", b"/X(5 0 obj endobj)", b"/X(5 0 obj<<>>)" + b" z" * 300]
    return _changed(data, found, found[0] + chance.choice(ways)) if found else data


def long_line(data: bytes, chance: random.Random) -> bytes:
    found = chance.choice(list(_DATA.finditer(data)) or [None])
    return _changed(data, found, b" " * chance.choice([3, 1100, 5000]) + found[0]) if found else data


def many_signs(data: bytes, chance: random.Random) -> bytes:
    for found in _some(_NAME, data, chance):
        at = chance.randrange(1, len(found[0]))
        signs = b"#" * chance.choice([1, 5, 200, 9000])
        data = _changed(data, found, found[0][:at] + signs + found[0][at:]) if len(data) < 200_000 else data
    return data


def other_type(data: bytes, chance: random.Random) -> bytes:
    """An object stream, or a table, that does not say that it is one."""
    found = chance.choice(list(_TYPE.finditer(data)) or [None])
    return _changed(data, found, chance.choice([b"/Type/Foo", b"", b"/First%\n"])) if found else data


def values_around(data: bytes, chance: random.Random) -> bytes:
    """More values in an object than one: some readers take the first, some the last."""
    found = chance.choice(list(re.finditer(rb"(?<=obj\n)(?=<<|\(|/|\[)|(?=\nendobj)", data)) or [None])
    value = chance.choice([b"null ", b"1 ", b"(a)", b"/X "])
    return _changed(data, found, b" " + value * chance.choice([1, 3, 70])) if found else data


def stream_for_dictionary(data: bytes, chance: random.Random) -> bytes:
    """Data behind dictionaries: PDFium takes the dictionary of a stream wherever it looks for one."""
    for found in _some(_DICTIONARY, data, chance):
        data = _changed(data, found, found[0][:-2] + b"/Length 1>>stream\nx\nendstream")
    return rebuild(data, chance) if chance.random() < 0.8 else data


WORD_MUTATORS: dict[str, Mutator] = {
    each.__name__: each
    for each in (
        odd_reference, odd_header, odd_count, long_gap, long_line, many_signs, other_type, values_around,
        stream_for_dictionary,
    )
}  # fmt: skip
ALL_MUTATORS: dict[str, dict[str, Mutator]] = {**MUTATORS, "words": WORD_MUTATORS}
