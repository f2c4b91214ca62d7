"""JSONPath (RFC 9535), compiled once. A path of names and indexes alone is *simple*: it can be walked without decoding
what lies beside it, and gives the bytes of a value as they stand in the answer.

Invariant: whatever way a value is found, its bytes are a slice of the answer, never written anew. Of equal keys in one
object the last counts.
"""

import json
from dataclasses import dataclass
from typing import Any

import msgspec
from jsonpath import JSONPath, JSONPathError
from jsonpath.segments import JSONPathChildSegment
from jsonpath.selectors import IndexSelector, NameSelector

from penstock.harvest.path_bounds import JSON_PATHS, jsonpath_beyond_bounds
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def path_problem(key: str, path: str, reason: str) -> PenstockError:
    problem = {
        "rule": "path",
        "key": f"response.{key}",
        "message_zh": f"路径 {path} 无法解析：{reason}",
        "message_en": f"the path {path} cannot be read: {reason}",
    }
    return PenstockError(error_codes.SPEC_INVALID, problems=[problem])


@dataclass(frozen=True, slots=True)
class Path:
    """`lead` is the simple beginning; without `query` it is the whole path."""

    lead: tuple[str | int, ...]
    query: JSONPath | None = None

    @classmethod
    def compile(cls, key: str, text: str) -> "Path":
        try:
            compiled = JSON_PATHS.compile(text)
        except JSONPathError as error:
            raise path_problem(key, text, str(error.args[0]) if error.args else "it is empty") from error
        if not isinstance(compiled, JSONPath):  # only without strict
            raise path_problem(key, text, "one path, not several")
        if beyond := jsonpath_beyond_bounds(text, compiled.segments):
            raise path_problem(key, text, beyond.en)
        lead: list[str | int] = []
        for segment in compiled.segments:
            step = _step(segment)
            if step is None:
                return cls(tuple(lead), compiled)
            lead.append(step)
        return cls(tuple(lead))


def _step(segment: Any) -> str | int | None:
    if not isinstance(segment, JSONPathChildSegment) or len(segment.selectors) != 1:
        return None
    selector = segment.selectors[0]
    if isinstance(selector, NameSelector):
        return selector.name
    return selector.index if isinstance(selector, IndexSelector) else None


def walk(raw: Any, steps: tuple[str | int, ...]) -> Any | None:
    """The bytes at a simple path, or None where the path does not lead."""
    for step in steps:
        try:
            raw = _members.decode(raw).get(step) if isinstance(step, str) else _elements.decode(raw)[step]
        except (msgspec.ValidationError, IndexError):
            return None
        if raw is None:
            return None
    return raw


def find_raw(path: Path, raw: Any) -> list[Any]:
    """The bytes of all that a path finds, in order."""
    if path.query is None:
        found = walk(raw, path.lead)
        return [] if found is None else [found]
    root = walk(raw, path.lead)
    if root is None:
        return []
    return _Slices(raw).at([match.parts for match in path.query.finditer(decode_any(raw))])


class _Slices:
    """Bytes by location; each object or list is cut once, however many of its members are asked for."""

    def __init__(self, raw: Any) -> None:
        self._raw = {(): raw}
        self._cut: dict[tuple[str | int, ...], Any] = {}

    def at(self, locations: list[tuple[str | int, ...]]) -> list[Any]:
        return [self._slice(location) for location in locations]

    def _slice(self, location: tuple[str | int, ...]) -> Any:
        if not location:
            return self._raw[()]
        parent = location[:-1]
        if parent not in self._cut:
            decoder: Any = _members if isinstance(location[-1], str) else _elements
            self._cut[parent] = decoder.decode(self._slice(parent))
        return self._cut[parent][location[-1]]


def decode_any(raw: Any) -> Any:
    """Plain values. Numbers beyond all bounds become infinite rather than spoil the page around them."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.ValidationError:
        return json.loads(bytes(raw), parse_int=lambda text: int(text) if len(text) < 4000 else float("inf"))
