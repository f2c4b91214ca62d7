"""Judges every object in the bytes of a file: what any reader may see is what is checked.

Readers disagree about a file whose table is damaged: one searches the bytes for objects, another trusts an older
section, a third looks into object streams that no table names. So the table is not asked. Each word that could belong
to an action is looked at where it stands, as part of whatever dictionary it is in, and references lead to all objects
of that number. Only what looks bad then is traced to an object, so an honest file costs one search over its bytes.

Invariant: a dictionary that a reader could parse behind any `obj` in the bytes, or in any object stream that begins
behind one, has been judged when `scan_bytes` returns without a finding.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

from penstock.pdf import codes
from penstock.pdf.actions import Finding, Judge, TooManyValues
from penstock.pdf.bytescan.around import ends_for_all, first_outside, objects_around
from penstock.pdf.bytescan.index import TRAILER, UNNUMBERED, Bytes, ObjectIndex, TooManyObjects
from penstock.pdf.bytescan.packed import PackedObjects, Unclear
from penstock.pdf.bytescan.references import loose_references
from penstock.pdf.bytescan.streams import RawStreams
from penstock.pdf.bytescan.tables import StrayEntries, streams_named_in
from penstock.pdf.bytescan.words import ENDLESS, KEY, PACKED, TABLE, find_words
from penstock.pdf.findings import Bounds, Notes
from penstock.pdf.inflating import decodings_of
from penstock.pdf.syntax import Either, Name, Parsed, Reference, Stream, Value, parse_entries, parse_object
from penstock.pdf.xfa import UnclearFilters, filters_of

_REVISIONS = 4  # times the number of objects that one revision may hold
_AROUND = 64 << 10
_DEEP = ("OpenAction", "AA", "EF", "XFA", "URI", "Ref", "JavaScript", "EmbeddedFiles")
_OF_TRAILERS = {"Root", "Size", "Prev", "W"}
_MOST_WORDS = 1_000_000
_MOST_TRACED = 200_000
_ENOUGH = 100
_LARGEST_PACKED = 64 << 20
_LOOSE = "loose"
_IN_STREAM = 1 << 62  # places from here on are in object streams


def scan_bytes(descriptor: int, bounds: Bounds, notes: Notes) -> None:
    """Add a note for everything that a reader may find in the bytes and that speaks against the file."""
    scan = _Scan(Bytes(descriptor), bounds, notes)
    try:
        scan.run()
    except TooManyObjects:
        detail = f"more than {_REVISIONS * bounds.max_objects} objects in all revisions"
        notes.add(codes.OBJECT_COUNT_EXCEEDED, "", detail)
    except (TooManyValues, RecursionError):
        notes.add(codes.PARSE_FAILED, "", "objects that readers may read in too many ways")
    except Unclear as failure:
        notes.add(codes.PARSE_FAILED, *failure.args)


class _Scan:
    def __init__(self, file: Bytes, bounds: Bounds, notes: Notes) -> None:
        self._file, self._notes = file, notes
        self._index = ObjectIndex(_REVISIONS * bounds.max_objects)
        self._streams = RawStreams(file, self._may_be_numbers)
        self._packed = PackedObjects(bounds.max_inflated_bytes)
        self._parsed = lru_cache(maxsize=4096)(self._parse_at)
        self._part = Judge(self._resolve, is_part=True)
        self._whole = Judge(self._resolve)
        self._stray = StrayEntries(file, self._index)
        self._opened: set[int] = set()  # object streams, by where they start
        self._incomplete: list[int] = []  # object streams that hold not what they say, by where they start
        self._unsure: list[int] = []  # words of object streams, in no object that could be told

    def run(self) -> None:
        found = self._search()
        self._tables = found[TABLE]
        self._add_stray_entries()
        words = found[KEY]
        for at in found[PACKED]:
            self._open_packed(at)
        self._check_packed()
        self._check_references(found[_LOOSE])
        suspects = [at for at in words if self._is_suspect(self._file.parsed(at, parse_entries, _AROUND))]
        self._packed.judge(self._part, self._whole, self._tell)
        if suspects:
            self._trace(suspects)
        for start in self._incomplete:
            raise Unclear(f"byte {start}", "an object stream that does not hold the objects it says")

    def _search(self) -> dict[str, list[int]]:
        """The positions of words by their kind, in order."""
        found: dict[str, dict[int, None]] = {KEY: {}, PACKED: {}, TABLE: {}, ENDLESS: {}, _LOOSE: {}}
        for begin, data in self._file.chunks():
            self._index.add_chunk(begin, data)
            for word in find_words(data):
                found[word.kind][begin + word.at] = None
            found[_LOOSE] |= dict.fromkeys(begin + at for at in loose_references(data))
            if sum(map(len, found.values())) > _MOST_WORDS:
                raise TooManyObjects
        for at in found[ENDLESS]:
            raise Unclear(f"byte {at}", "a name without an end")
        return {kind: sorted(places) for kind, places in found.items()}

    def _is_suspect(self, found: Parsed) -> bool:
        value = self._with_stream(found)
        for held in found.value.values if isinstance(found.value, Either) else [found.value]:
            if isinstance(held, dict) and ("Encrypt" in held or (not found.is_whole and _is_deep(held))):
                return True
        return next(self._part.find_actions(value), None) is not None

    # What a reference may lead to

    def _resolve(self, reference: Reference) -> list[Value]:
        return [
            self._parsed(place) if place < _IN_STREAM else self._packed.value_at(place - _IN_STREAM)
            for place in [*self._index.places_of(reference.number), *self._stray.places_of(reference.number)]
        ]

    def _add_stray_entries(self) -> None:
        self._stray.add_tables()
        for held, stream_at in self._table_streams():
            widths, sections, size = (self._numbers(held.get(key)) for key in ("W", "Index", "Size"))
            for data in self._decodings(held, stream_at):
                self._stray.add_stream(data, widths, sections or [0, *size])

    def _table_streams(self) -> Iterator[tuple[dict[str, Value], int]]:
        for at in self._tables:
            found = self._file.parsed(self._start_before(at), parse_object)
            if isinstance(found.value, dict) and found.stream_at is not None:
                yield found.value, found.stream_at
            elif at < found.end and found.streams:
                raise Unclear(f"byte {at}", "a cross-reference stream that readers may read differently")

    def _parse_at(self, place: int) -> Value:
        found = self._file.parsed(place, parse_object)
        if isinstance(found.value, Either) and not found.is_whole:
            raise Unclear(f"byte {place}", "an object of more values than can be looked at")
        if not ends_for_all(self._file, self._streams, found):
            raise Unclear(f"byte {place}", "an object that does not end where it should")
        return self._with_stream(found)

    def _with_stream(self, found: Parsed) -> Value:
        """The value, and every stream that a reader could see in it."""
        if not found.streams:
            return found.value
        streams: list[Value] = [
            Stream(held, partial(self._streams.contents, held, start)) for held, start in found.streams
        ]
        return (
            streams[0] if len(streams) == 1 and found.value is found.streams[0][0] else Either([found.value, *streams])
        )

    @staticmethod
    def _numbers(value: Value) -> list[int]:
        """Only as written in place: readers need the table before they can follow a reference."""
        return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, int)]

    def _may_be_numbers(self, value: Value) -> list[int]:
        return [each for each in self._whole.may_be(value) if isinstance(each, int)]

    # Object streams

    def _open_packed(self, at: int) -> None:
        """Read the object stream whose dictionary holds the word at this position, if it is one."""
        behind = self._file.parsed(at, parse_entries, _AROUND)
        start = self._start_before(at)
        found = self._file.parsed(start, parse_object) if start else None
        is_within = found is not None and start <= at < found.end
        if behind.stream_at is None:
            if found is not None and Name("ObjStm") in self._whole.may_be(found.value):  # a type, by reference
                raise Unclear("", "an object stream that says so by reference")
            if found is None or not is_within:
                self._unsure.append(at)
                return
            if found.is_whole and (not found.streams or (behind.is_whole and found.is_clean)):
                return  # no stream, or not its own dictionary
        if found is None or not found.is_clean or found.stream_at != (behind.stream_at or found.stream_at):
            raise Unclear("", "an object stream that readers may read differently")
        if not isinstance(found.value, dict) or found.stream_at is None or start in self._opened:
            return
        self._opened.add(start)
        held, stream_at = found.value, found.stream_at
        firsts = self._may_be_numbers(held.get("First"))
        if not firsts and held.get("Type") == Name("ObjStm"):
            raise Unclear(f"byte {start}", "an object stream that does not say where its objects begin")
        load = partial(self._decodings, held, stream_at)
        for number, place in self._packed.add(load, firsts, start):
            self._index.add(number, _IN_STREAM + place)
        if held.get("Type") == Name("ObjStm") and not self._packed.is_complete(self._may_be_numbers(held.get("N"))):
            self._incomplete.append(start)

    def _check_packed(self) -> None:
        """No object stream may have been passed over: by our search, or as it does not say that it is one."""
        for start, found in objects_around(self._file, self._index, self._unsure):
            if found.streams or not found.is_whole:
                raise Unclear(f"byte {start}", "an object stream that readers may read differently")
        self._check_outside(self._unsure, "text that could be an object stream, outside of all objects")
        for held, stream_at in self._table_streams():
            for data in self._decodings(held, stream_at):
                for number in streams_named_in(data, self._numbers(held.get("W"))):
                    if self._has_other_streams(number):
                        raise Unclear(f"object {number}", "a table calls it an object stream, which it is not")

    def _has_other_streams(self, number: int) -> bool:
        """Whether an object of this number is a stream that was not opened as an object stream."""
        others = [each for each in self._index.places_of(number) if each not in self._opened and each < _IN_STREAM]
        return any(self._file.parsed(each, parse_object).streams for each in others[:_ENOUGH])

    def _check_references(self, places: list[int]) -> None:
        for start, found in objects_around(self._file, self._index, places):
            if found.has_loose_reference or not found.is_whole:
                raise Unclear(f"byte {start}", "a reference that readers may read differently")
        self._check_outside(places, "a reference that readers may read differently")

    def _check_outside(self, places: list[int], detail: str) -> None:
        """Readers that go on behind the end of an object see there what we do not look at."""
        at = first_outside(self._file, self._index, self._streams, places)
        if at is not None:
            raise Unclear(f"byte {at}", detail)

    def _decodings(self, held: dict[str, Value], stream_at: int) -> list[bytes]:
        found: dict[bytes, None] = {}
        try:
            for filters, parameters in filters_of(held, self._whole.may_be):
                for raw in self._streams.contents(held, stream_at):
                    found |= dict.fromkeys(decodings_of(raw, filters, parameters, _LARGEST_PACKED))
        except UnclearFilters as failure:
            raise Unclear(f"byte {stream_at}", str(failure)) from failure
        return list(found)

    def _start_before(self, at: int) -> int:
        index = bisect_right(self._index.starts, at)
        return self._index.starts[index - 1] if index else 0

    # From what looks bad to the object that it is in

    def _trace(self, suspects: list[int]) -> None:
        """First in the objects that begin just before; if that leads to nothing, in all that begin before."""
        nearest = sorted({self._start_before(at) for at in suspects[:_ENOUGH]} - {0})
        if self._judge_objects(nearest, suspects):
            return
        before = self._index.starts[: bisect_right(self._index.starts, suspects[-1])]
        if len(before) > _MOST_TRACED:
            raise Unclear("", "text that could be an action, in more objects than can be looked at")
        if not self._judge_objects(before, suspects):
            self._check_outside(suspects, "text that could be an action, outside of all objects")

    def _judge_objects(self, starts: Sequence[int], suspects: list[int]) -> bool:
        told = False
        for start in starts:
            number = self._index.numbers[bisect_right(self._index.starts, start) - 1]
            found = self._file.parsed(start, parse_object)
            index = bisect_right(suspects, start)
            if index == len(suspects) or suspects[index] > found.end:
                continue  # nothing within it
            if self._encrypts(found, is_trailer=number == TRAILER):
                self._notes.add(codes.ENCRYPTED, "", "encrypted for readers that take another revision")
                told = True
            actions = list(self._whole.find_actions(self._with_stream(found)))
            for each in actions:
                self._tell(each, f"byte {start}")
            if not actions and not found.is_whole and number != UNNUMBERED:
                raise Unclear(f"byte {start}", "text that could be an action, in an object without an end")
            told = told or bool(actions)
        return told

    def _encrypts(self, found: Parsed, *, is_trailer: bool) -> bool:
        """Whether an object is a trailer for some reader, and says /Encrypt: readers join the trailers of sections."""
        held = [each for each in self._whole.may_be(found.value) if isinstance(each, dict)]
        trailers = [each for each in held if is_trailer or not _OF_TRAILERS.isdisjoint(each)]
        return any("Encrypt" in each for each in [*trailers, *(each for each, _ in found.streams)])

    def _tell(self, found: Finding, place: str) -> None:
        detail = f"{found.detail}, in an object that only some readers use"
        self._notes.add(found.code, f"{place} {found.path}".rstrip(), detail)


def _is_deep(held: dict[str, Value]) -> bool:
    """Whether a value that was cut off could go on with an action."""
    return any(isinstance(held.get(key), dict | list) for key in _DEEP)
