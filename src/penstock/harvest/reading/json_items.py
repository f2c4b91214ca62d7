"""One item of a JSON answer. Two ways lead to the same columns: a fast one, for which a struct of just the fields that
are needed is made from the paths, so that the rest of the item is skipped in C and no dict is ever built; and a
thorough one, which walks the paths one by one and can say what is wrong.

Invariant: the fast way takes only what is beyond doubt and leaves every other item to the thorough one.
"""

import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from jsonpath import JSONPathError

from penstock.harvest.page import FaultKind
from penstock.harvest.reading.paths import UNREADABLE, Path, decode_any, find_raw
from penstock.harvest.reading.rules import ID_BYTES, Columns, ItemFault, Rules
from penstock.harvest.reading.structs import Shape
from penstock.harvest.reading.times import EARLIEST, LATEST
from penstock.harvest.spec import Sections

NUL = b"\\u0000"
_REAL_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
# A jsonb column cannot hold numbers of more than 131,072 digits: what comes near is looked at closely.
_WILD_NUMBER = re.compile(rb"[0-9][eE][+]?[0-9]{4,}|(?<![0-9])[0-9]{4000,}")
_QUOTE = ord('"')
_SURE_ID = ID_BYTES // 4

More = tuple[str | None, bool, bytes | None]  # version, deleted, fields
Read = tuple[str, datetime | None, More | None]


class JsonItems:
    """Reads the items of one source; built once."""

    def __init__(self, sections: Sections, rules: Rules) -> None:
        response = sections.response
        self._rules = rules
        self._ids = [Path.compile("idPath", path) for path in several(response.id_path)]
        times = several(response.updated_at_path) if rules.needs_time else ()
        self._times = [Path.compile("updatedAtPath", path) for path in times]
        self._version = Path.compile("versionPath", response.version_path or "$") if rules.has_version else None
        self._deleted = Path.compile("deletedPath", response.deleted_path or "$") if rules.has_deleted else None
        self._output = [Path.compile("outputFields", field.expr) for field in rules.output]
        self._heads = [json.dumps(field.name).encode() + b":" for field in rules.output]
        self._fast = self._fast_way()

    def read_all(self, raws: Sequence[Any], columns: Columns, *, page: bytes) -> None:
        may_hold_nul, is_ascii = b"\\" in page and NUL in page, page.isascii()
        fast, add = self._fast, columns.add
        add_more = None if self._rules.is_plain else columns.add_more
        for no, raw in enumerate(raws):
            body = bytes(raw)
            found = None
            if fast is not None and (is_ascii or _is_utf8(body)) and not (may_hold_nul and NUL in body):
                found = fast(body)
            if found is None:
                try:
                    found = self.read_thoroughly(body)
                except ItemFault as fault:
                    columns.fault(no, fault, body)
                    continue
            if add(found[0], found[1], body) and add_more is not None:
                add_more(*found[2])  # type: ignore[misc]  # there, unless plain

    def read_thoroughly(self, body: bytes) -> Read:
        """Raises ItemFault with what is wrong."""
        try:
            body.decode()
            if NUL in body and _REAL_NUL.search(body):
                raise ItemFault(FaultKind.NOT_READABLE, "it holds the character NUL", self._id_if_any(body))
            provider_id = self._rules.id_of([self._id_part(path, body) for path in self._ids])
            updated = None
            if self._rules.needs_time:
                updated = self._rules.time_of([self._value(path, body) for path in self._times], provider_id)
            return provider_id, updated, self._more(body, provider_id)
        except (*UNREADABLE, JSONPathError, ValueError) as error:
            raise ItemFault(FaultKind.NOT_READABLE, f"it cannot be read: {error}"[:200]) from error

    def _id_if_any(self, body: bytes) -> str | None:
        try:
            found = self._rules.id_of([self._id_part(path, body) for path in self._ids])
        except ItemFault:
            return None
        return None if "\0" in found else found

    @staticmethod
    def _id_part(path: Path, body: bytes) -> str | None:
        raw = next(iter(find_raw(path, body)), None)
        value = None if raw is None else decode_any(raw)
        if isinstance(value, bool) or not isinstance(value, str | int | None):
            raise ItemFault(FaultKind.NO_ID, "the id is neither text nor a whole number")
        return value if value is None or isinstance(value, str) else str(value)

    @staticmethod
    def _value(path: Path, body: bytes) -> Any:
        raw = next(iter(find_raw(path, body)), None)
        return None if raw is None else decode_any(raw)

    def _more(self, body: bytes, provider_id: str) -> More | None:
        if self._rules.is_plain:
            return None
        version = scalar_text(next(iter(find_raw(self._version, body)), None)) if self._version else None
        deleted = scalar_text(next(iter(find_raw(self._deleted, body)), None)) if self._deleted else None
        is_deleted = self._rules.has_deleted and self._rules.is_deleted(deleted)
        fields = [_field(path, body, provider_id) for path in self._output]
        return version, is_deleted, self._mapped(fields, provider_id, is_deleted)

    def _mapped(self, raws: list[bytes | None], provider_id: str, is_deleted: bool) -> bytes | None:
        """Of a deleted item nothing but its id need be left."""
        if not raws:
            return None
        pieces = []
        for field, head, raw in zip(self._rules.output, self._heads, raws, strict=True):
            if raw is not None and raw != b"null":
                pieces.append(head + raw)
            elif field.required and not is_deleted:
                raise ItemFault(FaultKind.FIELD_MISSING, f"the field {field.name} is missing", provider_id)
        return b"{" + b",".join(pieces) + b"}"

    def _fast_way(self) -> Callable[[bytes], Read | None] | None:
        """None where a path is not simple, or several places may hold the time."""
        extras = [path for path in (self._version, self._deleted) if path] + self._output
        if len(self._times) > 1 or any(path.query for path in (*self._ids, *self._times, *extras)):
            return None
        shape = Shape()
        for path in self._ids:
            shape.ask(path.lead, "text")
        for path in self._times:
            shape.ask(path.lead, "moment")
        for path in extras:
            shape.ask(path.lead, "raw")
        built = shape.build()
        if built is None:
            return None
        decode, getters = built
        count = len(self._ids)
        get_more = None if self._rules.is_plain else self._more_of(getters[count + len(self._times) :])
        return _fast_reader(self._rules, decode, getters[: count + len(self._times)], count, get_more)

    def _more_of(self, getters: list[Callable[[Any], Any]]) -> Callable[[Any, str], More]:
        get_version = getters.pop(0) if self._version else None
        get_deleted = getters.pop(0) if self._deleted else None
        rules = self._rules

        def more(item: Any, provider_id: str) -> More:
            version = scalar_text(get_version(item)) if get_version else None
            is_deleted = rules.is_deleted(scalar_text(get_deleted(item))) if get_deleted else False
            raws: list[bytes | None] = []
            for get in getters:
                raw = get(item)
                written = None if raw is None else bytes(raw)
                raws.append(written)
                if written and len(written) > 5 and written[0] != _QUOTE and _WILD_NUMBER.search(written):
                    raise ValueError("a number to look at closely")
            return version, is_deleted, self._mapped(raws, provider_id, is_deleted)

        return more


def _fast_reader(
    rules: Rules,
    decode: Callable[[Any], Any],
    getters: list[Callable[[Any], Any]],
    id_count: int,
    get_more: Callable[[Any, str], More] | None,
) -> Callable[[bytes], Read | None]:
    get_id, id_getters = getters[0], getters[:id_count]
    get_time = getters[id_count] if len(getters) > id_count else None
    is_plain_id = id_count == 1 and rules.pattern is None
    moment, id_of = _fast_moment(rules), rules.id_of

    def read(body: bytes) -> Read | None:
        try:
            item = decode(body)
            provider_id = get_id(item)
            if not (
                is_plain_id and provider_id.__class__ is str and len(provider_id) < _SURE_ID and provider_id.strip()
            ):
                parts = [get(item) for get in id_getters]
                provider_id = id_of([str(part) if part.__class__ is int else part for part in parts])
            updated = moment(get_time(item)) if get_time is not None else None
            return provider_id, updated, get_more(item, provider_id) if get_more is not None else None
        except (msgspec.DecodeError, ValueError, OverflowError, AttributeError, RecursionError, ItemFault):
            return None

    return read


def _fast_moment(rules: Rules) -> Callable[[Any], datetime]:
    if rules.has_format:
        return rules.moment
    iso, moment = datetime.fromisoformat, rules.moment

    def read(value: Any) -> datetime:
        if value.__class__ is str and value[4:5] == "-":  # so it is no epoch, and no list of digits
            found = iso(value)
            if found.tzinfo is None:
                found = found.replace(tzinfo=UTC)
            elif found.tzinfo is not UTC:
                found = found.astimezone(UTC)
            if EARLIEST <= found < LATEST:
                return found
        return moment(value)

    return read


def _field(path: Path, body: bytes, provider_id: str) -> bytes | None:
    """The JSON of a mapped field: a simple path gives the value as it stands, any other the list of what it finds."""
    found = [bytes(raw) for raw in find_raw(path, body)]
    for raw in found:
        if _WILD_NUMBER.search(raw) and _has_wild_number(raw):
            raise ItemFault(FaultKind.NOT_READABLE, "a mapped number is too large to be stored", provider_id)
    if path.query is None:
        return found[0] if found else None
    return b"[" + b",".join(found) + b"]" if found else None


def _has_wild_number(raw: bytes) -> bool:
    wild: list[bool] = []

    def note(text: str) -> None:
        wild.append(_WILD_NUMBER.search(text.encode()) is not None)

    json.loads(raw, parse_float=note, parse_int=note)
    return any(wild)


def scalar_text(raw: Any) -> str | None:
    """Text as text; numbers, true and false as they are written; lists and objects too."""
    if raw is None:
        return None
    written = bytes(raw)
    if written[:1] == b'"':
        return str(msgspec.json.decode(written))
    return None if written == b"null" else written.decode()


def several(paths: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (paths,) if isinstance(paths, str) else paths or ()


def _is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
