"""The objects within object streams, each stream read in every way that a reader may decode it.

Streams are decoded again when something in them is asked for, so memory does not grow with their number.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache

from penstock.pdf.actions import Finding, Judge
from penstock.pdf.bytescan.references import loose_references
from penstock.pdf.bytescan.words import ENDLESS, KEY, find_words
from penstock.pdf.syntax import Parsed, Value, parse_entries, parse_value

_OFFSET_BITS = 28
_WAY_BITS = 6
_LARGEST = 64 << 20
_NUMBER = re.compile(rb"(?=[0-9+.-])[+-]*0*(\d{0,18})[0-9+.-]*")
_HEADER = re.compile(rb"[\d\x00\t\n\x0c\r ]*")
_VALUE = re.compile(rb"(?:[\x00\t\n\x0c\r ]|%[^\r\n]*)*+[<(/\[0-9+.tfn-]")

Load = Callable[[], list[bytes]]
Tell = Callable[[Finding, str], None]


class Unclear(Exception):
    """Readers may see different things in the file, and we cannot tell all of them. Place, and detail."""


class PackedObjects:
    """All object streams of one file. `most` is how many bytes they may inflate to together."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._loads: list[tuple[Load, list[int], int]] = []
        self._worth_a_look: list[tuple[int, int, list[int]]] = []
        self._decoded = lru_cache(maxsize=4)(self._decode)
        self.value_at = lru_cache(maxsize=4096)(self._value_at)

    def add(self, load: Load, firsts: list[int], at: int) -> Iterator[tuple[int, int]]:
        """Numbers and places of its objects; `firsts` is where the first of them may begin, `at` where it stands."""
        stream = len(self._loads)
        self._loads.append((load, firsts, at))
        for way, data in enumerate(self._decoded(stream)):
            self._left -= len(data)
            if self._left < 0 or len(data) >= _LARGEST or way >> _WAY_BITS:
                raise Unclear(f"byte {at}", "object streams that inflate to too much")
            for number, offset in _members(data, firsts):
                yield number, ((stream << _WAY_BITS | way) << _OFFSET_BITS) + offset
            found = list(find_words(data))
            if any(word.kind == ENDLESS for word in found):
                raise Unclear(f"byte {at}", "a name without an end, in an object stream")
            _check_references(data, firsts, at)
            words = [word.at for word in found if word.kind == KEY]
            if words:
                self._worth_a_look.append((stream, way, words))

    def is_complete(self, counts: list[int]) -> bool:
        """Whether the stream added last holds as many objects as it says, in one of the ways to decode it."""
        stream = len(self._loads) - 1
        firsts = self._loads[stream][1]
        return bool(counts) and any(
            _holds(data, first, max(counts)) for data in self._decoded(stream) for first in firsts
        )

    def judge(self, part: Judge, whole: Judge, tell: Tell) -> None:
        """Look at what could be an action; `part` judges entries from their middle on, `whole` the objects."""
        for stream, way, words in self._worth_a_look:
            data, (_, firsts, place) = self._decoded(stream)[way], self._loads[stream]
            bad = [at for at in words if next(part.find_actions(parse_entries(data, at).value), None)]
            if not bad:
                continue
            if not firsts or not all(_HEADER.fullmatch(data[:first]) for first in firsts):
                raise Unclear(f"byte {place}", "an object stream with an action, whose list of objects is damaged")
            for offset, found in [*_listed(data, firsts), *_in_sequence(data)]:
                if not any(offset <= at <= found.end for at in bad):
                    continue
                actions = list(whole.find_actions(found.value))
                for each in actions:
                    tell(each, f"object stream at byte {place}")
                if not actions and not found.is_whole:
                    raise Unclear(f"byte {place}", "an object stream with text that could be an action")

    def _decode(self, stream: int) -> list[bytes]:
        return self._loads[stream][0]()

    def _value_at(self, place: int) -> Value:
        which, offset = divmod(place, 1 << _OFFSET_BITS)
        stream, way = divmod(which, 1 << _WAY_BITS)
        return parse_value(self._decoded(stream)[way], offset).value


def _check_references(data: bytes, firsts: list[int], place: int) -> None:
    loose = list(loose_references(data))
    if not loose:
        return
    for offset, found in [*_listed(data, firsts), *_in_sequence(data)]:
        if found.has_loose_reference and any(offset <= at <= found.end for at in loose):
            raise Unclear(f"byte {place}", "a reference in an object stream that readers may read differently")


def _holds(data: bytes, first: int, count: int) -> bool:
    """Whether the list of objects is nothing but numbers, and something that can be an object stands at each offset."""
    if first > len(data) or not _HEADER.fullmatch(data, 0, first):
        return False
    offsets = [int(each) for each in data[:first].replace(b"\x00", b" ").split()[1 : 2 * count : 2] if len(each) < 20]
    return len(offsets) >= count and all(_VALUE.match(data, first + each) for each in offsets)


def _listed(data: bytes, firsts: list[int]) -> Iterator[tuple[int, Parsed]]:
    for _, offset in _members(data, firsts):
        yield offset, parse_value(data, offset)


def _in_sequence(data: bytes) -> Iterator[tuple[int, Parsed]]:
    """One object behind the other: some readers do not heed the offsets."""
    at = 0
    while at < len(data):
        found = parse_value(data, at)
        yield at, found
        at = max(found.end, at + 1)


def _members(data: bytes, firsts: list[int]) -> Iterator[tuple[int, int]]:
    """Numbers of the objects, and where each begins."""
    for first in firsts:
        numbers = [int(each or b"0") for each in _NUMBER.findall(data, 0, first)]
        for number, offset in zip(numbers[::2], numbers[1::2], strict=False):
            if first + offset < len(data):
                yield number, first + offset
