"""Damage to PDFs on which readers disagree: each mutator changes one thing about structure, table, streams or text.

A mutator that finds nothing to change gives the file back as it is.
"""

import base64
import random
import re
import zlib
from collections.abc import Callable

Mutator = Callable[[bytes, random.Random], bytes]
_OBJECT = re.compile(rb"(\d+) (\d+) obj\n(.*?)\nendobj\n", re.DOTALL)
_ENTRY = re.compile(rb"(\d{10}) (\d{5}) ([nf])( \n|\r\n| \r)")
_NAME = re.compile(rb"/[A-Za-z]{1,20}")
_STREAM = re.compile(rb"(<<[^>]{0,400}?)/Length (\d+)([^>]{0,400}?>>)\s?stream\n", re.DOTALL)
_STRING = re.compile(rb"\(((?:[^()\\]|\\.){1,200})\)", re.DOTALL)
_FLATE = re.compile(rb"/Filter\s?/FlateDecode")
_TOKENS = [
    b"<<", b">>", b"[", b"]", b"(", b")", b"<", b">", b"{", b"}", b"%", b"%\n", b"/", b"stream\n", b"endstream\n",
    b"endobj\n", b"obj", b"5 0 obj\n", b"R", b"null", b"-1", b"0", b"99999999999", b"xref\n", b"trailer\n",
    b"startxref\n", b"%%EOF\n", b"\x00", b"\x0c", b"\\", b"#", b"/S", b"/Kids", b"/Type/ObjStm", b"1 0 R",
]  # fmt: skip
_BLANKS = [b" ", b"\n", b"\r", b"\r\n", b"\t", b"\x0c", b"\x00", b"%c\n", b"%c\r", b" " * 40, b""]
_HARMLESS = [b"<</S/GoTo/D[3 0 R/Fit]>>", b"null", b"<<>>", b"[]", b"(text)", b"/Named", b"0"]


def _at(data: bytes, chance: random.Random) -> int:
    return chance.randrange(len(data) + 1)


def _one(pattern: re.Pattern[bytes], data: bytes, chance: random.Random) -> re.Match[bytes] | None:
    found = list(pattern.finditer(data))
    return chance.choice(found) if found else None


def _object(data: bytes, chance: random.Random) -> re.Match[bytes] | None:
    """An object; seldom one of the catalogue and the page tree, without which no reader opens the file."""
    found = list(_OBJECT.finditer(data))
    others = [each for each in found if not re.search(rb"/(?:Catalog|Pages|Page)\b", each[3])]
    if others and chance.random() < 0.85:
        found = others
    return chance.choice(found) if found else None


def _put(data: bytes, found: re.Match[bytes], new: bytes, group: int = 0) -> bytes:
    return data[: found.start(group)] + new + data[found.end(group) :]


def rebuild(data: bytes, chance: random.Random) -> bytes:
    """A table whose offsets are right again, for the first or the last object of each number."""
    start = data.rfind(b"xref\n0 ")
    if start < 0:
        return data
    found = [(int(each[1]), each.start()) for each in re.finditer(rb"(?<!\d)(\d{1,6}) \d+ obj", data[:start])]
    places = dict(found if chance.random() < 0.5 else reversed(found))
    size = max(places, default=0) + 1
    table = b"xref\n0 %d\n0000000000 65535 f \n" % size
    for number in range(1, size):
        table += b"%010d 00000 n \n" % places[number] if number in places else b"0000000000 00000 f \n"
    return data[:start] + table + b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, start)


def put_token(data: bytes, chance: random.Random) -> bytes:
    at = _at(data, chance)
    return data[:at] + chance.choice(_TOKENS) * chance.choice([1, 1, 1, 2, 40]) + data[at:]


def cut_out(data: bytes, chance: random.Random) -> bytes:
    at = _at(data, chance)
    return data[:at] + data[at + chance.randint(1, 40) :]


def change_byte(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        made[chance.randrange(len(made))] = chance.choice([chance.randrange(256), chance.choice(b"()<>[]/% \n\x00#\\")])
    return bytes(made)


def move_piece(data: bytes, chance: random.Random) -> bytes:
    one, length, other = _at(data, chance), chance.randint(1, 200), _at(data, chance)
    return data[:other] + data[one : one + length] + data[other:]


def second_object(data: bytes, chance: random.Random) -> bytes:
    """A harmless object of the same number, before or behind; the table names either."""
    found = _object(data, chance)
    if not found:
        return data
    other = b"%s %s obj\n%s\nendobj\n" % (found[1], found[2], chance.choice(_HARMLESS))
    made = _put(data, found, found[0] + other if chance.random() < 0.5 else other + found[0])
    return rebuild(made, chance) if chance.random() < 0.8 else made


def hide_in_text(data: bytes, chance: random.Random) -> bytes:
    """An object put into a string, a comment or a stream of another."""
    found = _object(data, chance)
    if not found:
        return data
    inner = found[0]
    ways = [
        b"%s 0 obj\n<</T(\n%s)>>\nendobj\n" % (b"77", inner),
        b"77 0 obj\n<</Length %d>>stream\n%s\nendstream\nendobj\n" % (len(inner), inner),
        b"%" + inner,
        b"77 0 obj\n<</T(%s0 obj<<%%)\n%s>>\nendobj\n" % (b"9 ", found[3].strip(b"<>")),
        b"77 0 obj\n(" + inner.replace(b"(", b"\\(").replace(b")", b"\\)") + b")\nendobj\n",
    ]
    made = _put(data, found, chance.choice(ways))
    return rebuild(made, chance) if chance.random() < 0.5 else made


def change_number(data: bytes, chance: random.Random) -> bytes:
    found = _object(data, chance)
    return _put(data, found, b"%d" % chance.randint(0, 12), chance.choice([1, 1, 2])) if found else data


def drop_object(data: bytes, chance: random.Random) -> bytes:
    found = _object(data, chance)
    if not found:
        return data
    made = _put(data, found, b"")
    return made + found[0] if chance.random() < 0.5 else found[0] + made


def into_object_stream(data: bytes, chance: random.Random) -> bytes:
    """An object that only an object stream holds, without an entry in the table."""
    found = _object(data, chance)
    if not found or b"stream" in found[3]:
        return data
    head = b"%s 0 " % found[1]
    packed = zlib.compress(head + found[3])
    stated = b"<</Type/ObjStm/N 1/First %d/Length %d/Filter/FlateDecode>>stream\n" % (len(head), len(packed))
    other = b"%d 0 obj\n%s%s\nendstream\nendobj\n" % (chance.choice([78, 5, 6]), stated, packed)
    made = _put(data, found, other if chance.random() < 0.5 else other + b"%s 0 obj\nnull\nendobj\n" % found[1])
    return rebuild(made, chance) if chance.random() < 0.7 else made


def change_blank(data: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 6)):
        found = _one(re.compile(rb"[ \n]|(?<=[A-Za-z])(?=[/(<\[])"), data, chance)
        data = _put(data, found, chance.choice(_BLANKS)) if found else data
    return data


def shift(data: bytes, chance: random.Random) -> bytes:
    junk = chance.choice([b"\n", b"junk\n", b"\x00" * 9, b"%PDF-1.4\n", b" " * 900, b"5 0 obj\nnull\nendobj\n"])
    return junk + data if chance.random() < 0.6 else data + junk


def revise(data: bytes, chance: random.Random) -> bytes:
    """A later revision that replaces an object by a harmless one, or brings another back."""
    found = _object(data, chance)
    before = re.findall(rb"startxref\s+(\d+)", data)
    if not found or not before:
        return data
    body = chance.choice([b"%s 0 obj\n%s\nendobj\n" % (found[1], chance.choice(_HARMLESS)), found[0]])
    if int(found[1]) == 1:
        body = b"1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n"
    made = data + body
    offset = len(data) + chance.choice([0, 0, 0, 1, -1])
    table = b"xref\n%s 1\n%010d 00000 n \n" % (found[1], offset)
    end = b"trailer\n<</Size 99/Root 1 0 R/Prev %s>>\nstartxref\n%d\n%%%%EOF\n" % (before[-1], len(made))
    return made + table + end


def entry_width(data: bytes, chance: random.Random) -> bytes:
    end = chance.choice([b"\n", b"\r", b" \r\n", b"  \n", b"\r\n\n", b""])
    return _ENTRY.sub(lambda each: b"%s %s %s" % (each[1], each[2], each[3]) + end, data)


def entry_value(data: bytes, chance: random.Random) -> bytes:
    found = _one(_ENTRY, data, chance)
    if not found:
        return data
    kind = chance.randrange(4)
    if kind == 0:
        return _put(data, found, b"f" if found[3] == b"n" else b"n", 3)
    if kind == 1:
        return _put(data, found, b"%010d" % max(0, int(found[1]) + chance.choice([-9, -1, 1, 3, 20])), 1)
    if kind == 2:
        return _put(data, found, b"%05d" % chance.choice([1, 65535]), 2)
    others = [each.start() for each in re.finditer(rb"\d+ \d+ obj", data)]
    return _put(data, found, b"%010d" % chance.choice(others), 1) if others else data


def table_words(data: bytes, chance: random.Random) -> bytes:
    word = chance.choice(
        [b"%%EOF", b"startxref", b"trailer", b"xref\n", b"/Root 1 0 R", b"/Size", b"/Prev", b"/XRefStm"]
    )
    return data.replace(word, chance.choice([b"", b"x", word + b" ", word[::-1], word[:-1]]))


def table_start(data: bytes, chance: random.Random) -> bytes:
    found = _one(re.compile(rb"startxref\s+(\d+)"), data, chance)
    if not found:
        return data
    places = [
        0,
        len(data),
        int(found[1]) + chance.choice([-2, -1, 1, 7]),
        data.find(b"obj"),
        chance.randrange(len(data)),
    ]
    return _put(data, found, b"%d" % max(0, chance.choice(places)), 1)


def table_numbers(data: bytes, chance: random.Random) -> bytes:
    found = _one(re.compile(rb"(?:xref\n|/W ?\[|/Index ?\[|/Size |/Prev |/N |/First |/Length )(\d+)"), data, chance)
    if not found:
        return data
    return _put(data, found, b"%d" % max(0, int(found[1]) + chance.choice([-3, -1, 1, 2, 50, 10**9])), 1)


def loop_sections(data: bytes, chance: random.Random) -> bytes:
    found = _one(re.compile(rb"/Root 1 0 R"), data, chance)
    starts = re.findall(rb"startxref\s+(\d+)", data)
    if not found or not starts:
        return data
    return _put(data, found, found[0] + b"/%s %s" % (chance.choice([b"Prev", b"XRefStm"]), chance.choice(starts)))


def stream_length(data: bytes, chance: random.Random) -> bytes:
    found = _one(_STREAM, data, chance)
    if not found:
        return data
    length = chance.choice([0, 1, int(found[2]) // 2, int(found[2]) + 1, int(found[2]) + 500, 10**8])
    stated = chance.choice(
        [b"/Length %d" % length, b"", b"/Length 5 0 R", b"/Length %d/Length %s" % (length, found[2])]
    )
    return _put(data, found, found[1] + stated + found[3] + b"stream\n")


def _with_data(data: bytes, chance: random.Random, change: Callable[[bytes], tuple[bytes, bytes | None]]) -> bytes:
    """Change the data of one stream, and its filter where `change` gives one."""
    found = _one(_STREAM, data, chance)
    if not found:
        return data
    end = found.end() + int(found[2][:7])
    if data[end : end + 10].strip()[:9] != b"endstream":
        return data
    made, filters = change(data[found.end() : end])
    head, tail = found[1], found[3]
    if filters is not None:
        head, tail = _FLATE.sub(b"", head), _FLATE.sub(b"", tail)
        head += b"/Filter " + filters
    return data[: found.start()] + head + b"/Length %d" % len(made) + tail + b"stream\n" + made + data[end:]


def damage_stream(data: bytes, chance: random.Random) -> bytes:
    def change(raw: bytes) -> tuple[bytes, None]:
        ways = [
            raw[:-1] + b"\x00",
            raw[:-4],
            raw + b"garbage",
            b"\r\n" + raw,
            raw[2:],
            raw[: len(raw) * 2 // 3],
            raw[:-5] + b"\xff" * 9,
            bytes([raw[0] ^ 0x10]) + raw[1:] if raw else raw,
            raw[:1] + b"\x00" + raw[2:],
        ]
        return chance.choice(ways), None

    return _with_data(data, chance, change)


def other_filter(data: bytes, chance: random.Random) -> bytes:
    def change(raw: bytes) -> tuple[bytes, bytes | None]:
        try:
            plain = zlib.decompress(raw)
        except zlib.error:
            return raw, None
        return chance.choice([_ascii85, _hexadecimal, _runs, _twice, _predicted, _unknown])(plain, chance)

    return _with_data(data, chance, change)


def _within(made: bytes, odd: list[bytes], chance: random.Random) -> bytes:
    at = chance.randrange(len(made))
    return made[:at] + chance.choice(odd) + made[at:]


def _ascii85(plain: bytes, chance: random.Random) -> tuple[bytes, bytes]:
    made = base64.a85encode(plain) + b"~>"
    return _within(made, [b"", b"\x7f", b"v", b"~", b"z", b" "], chance), b"/ASCII85Decode"


def _hexadecimal(plain: bytes, chance: random.Random) -> tuple[bytes, bytes]:
    return _within(plain.hex().encode() + b">", [b"", b"g", b"\x00", b"  "], chance), b"/ASCIIHexDecode"


def _runs(plain: bytes, chance: random.Random) -> tuple[bytes, bytes]:
    pieces = [plain[at : at + 99] for at in range(0, len(plain), 99)]
    made = b"".join(bytes([len(piece) - 1]) + piece for piece in pieces)
    return made + chance.choice([b"\x80", b"", b"\x80junk"]), b"/RunLengthDecode"


def _twice(plain: bytes, chance: random.Random) -> tuple[bytes, bytes]:
    return base64.a85encode(zlib.compress(plain)) + b"~>", chance.choice(
        [b"[/A85/Fl]", b"[/ASCII85Decode/FlateDecode]"]
    )


def _predicted(plain: bytes, chance: random.Random) -> tuple[bytes, bytes]:
    """As it is, under a predictor that it was not written with."""
    parameters = b"<</Predictor %d/Columns 4>>" % chance.choice([1, 2, 12])
    return zlib.compress(plain), b"/FlateDecode/DecodeParms" + parameters


def _unknown(plain: bytes, chance: random.Random) -> tuple[bytes, bytes]:
    return plain, chance.choice([b"[]", b"null", b"/Crypt", b"[/Crypt]", b"5 0 R"])


def stream_word(data: bytes, chance: random.Random) -> bytes:
    found = _one(re.compile(rb"stream\n"), data, chance)
    new = chance.choice(
        [b"stream\r", b"stream \n", b"stream\r\n", b"stream", b"stream%x\n", b"stream\n\n", b"endstream\n"]
    )
    return _put(data, found, new) if found else data


def escape_name(data: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.randint(1, 8)):
        found = _one(_NAME, data, chance)
        if found:
            at = chance.randrange(1, len(found[0]))
            digits = chance.choice([b"%02x", b"%02X", b"%02x", b"%xz", b"%03x"]) % found[0][at]
            data = _put(data, found, found[0][:at] + b"#" + digits + found[0][at + 1 :])
    return data


def rewrite_string(data: bytes, chance: random.Random) -> bytes:
    found = _one(_STRING, data, chance)
    if not found:
        return data
    text = found[1]
    ways = [
        b"<%s>" % text.hex().encode(),
        b"(%s)" % b"".join(b"\\%03o" % each for each in text),
        b"<feff%s>" % text.decode("latin-1").encode("utf-16-be").hex().encode(),
        b"(\\\n%s)" % text,
        b"(%s" % text,
        b"<%s" % text.hex().encode(),
        b"(\xef\xbb\xbf%s)" % text,
    ]
    return _put(data, found, chance.choice(ways))


def by_reference(data: bytes, chance: random.Random) -> bytes:
    """The value of a key, moved to an object of its own."""
    found = _one(
        re.compile(rb"/(?:S|JS|F|A|OpenAction|XFA|URI|Type|Filter)\s?(/[A-Za-z#0-9]+|\([^()\\]*\))"), data, chance
    )
    start = data.rfind(b"xref\n0 ")
    if not found or start < found.end():
        return data
    made = data[: found.start(1)] + b" 79 0 R" + data[found.end(1) : start]
    other = b"79 0 obj\n%s\nendobj\n" % found[1]
    decoy = b"79 0 obj\n%s\nendobj\n" % chance.choice(_HARMLESS)
    made += chance.choice([other, other + decoy, decoy + other])
    return rebuild(made + data[start:], chance) if chance.random() < 0.8 else made + data[start:]


def key_twice(data: bytes, chance: random.Random) -> bytes:
    found = _one(
        re.compile(rb"/(?:S|JS|F|A|AA|OpenAction|XFA|Names|Annots|Type|Filter|First|N)(?=[ /(<\[])"), data, chance
    )
    if not found:
        return data
    value = chance.choice([b"/Named", b" null", b"[]", b"<<>>", b" 5 0 R", b"(x)"])
    return data[: found.start()] + found[0] + value + data[found.start() :]


MUTATORS: dict[str, dict[str, Mutator]] = {
    "structure": {
        each.__name__: each
        for each in (
            put_token, cut_out, change_byte, move_piece, second_object, hide_in_text, change_number, drop_object,
            into_object_stream, change_blank, shift, revise,
        )
    },
    "table": {
        each.__name__: each
        for each in (entry_width, entry_value, table_words, table_start, table_numbers, loop_sections)
    },
    "streams": {each.__name__: each for each in (stream_length, damage_stream, other_filter, stream_word)},
    "text": {each.__name__: each for each in (escape_name, rewrite_string, by_reference, key_twice)},
}  # fmt: skip
