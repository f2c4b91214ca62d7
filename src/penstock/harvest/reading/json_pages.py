"""A JSON answer: where its items are, what leads to the next one, and whether it is an answer at all.

Invariant: the body of an item is the slice of the answer in which it stands. The content type is not asked; the bytes
are. Broken JSON is refused as a whole, because nobody can say where its items end; the one exception is half a
surrogate pair, which PostgreSQL cannot store but which harms no other item.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from jsonpath import JSONPathError

from penstock.harvest.page import FaultKind, Page
from penstock.harvest.reading.json_items import JsonItems, scalar_text
from penstock.harvest.reading.paths import UNREADABLE, Path, find_raw, walk
from penstock.harvest.reading.rules import Columns, InBandErrors, ItemFault, Rules, whole_number, yes_or_no
from penstock.harvest.reading.structs import Shape
from penstock.harvest.slices import Span
from penstock.harvest.spec import Sections

_NOTHING = {None, "", "false", "0", "[]", "{}"}
_ERROR_BYTES = 1024 * 1024  # no error is longer than this
_BOM = b"\xef\xbb\xbf"
_SURROGATES = re.compile(
    rb"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_elements = msgspec.json.Decoder(list[msgspec.Raw])
_ENVELOPE = {
    "error": "errorPath",
    "total": "totalPath",
    "token": "nextTokenPath",
    "url": "nextUrlPath",
    "more": "hasMorePath",
    "truncated": "truncatedPath",
}


class JsonPages:
    """Reads the answers of one source; built once."""

    def __init__(self, sections: Sections, rules: Rules) -> None:
        response, pagination = sections.response, sections.pagination
        said = {
            "error": response.error_path,
            "total": response.total_path,
            "token": pagination.next_token_path,
            "url": pagination.next_url_path,
            "more": pagination.has_more_path,
            "truncated": response.truncated_path,
        }
        self._rules = rules
        self._errors = InBandErrors(sections)
        self._items_path = Path.compile("itemsPath", response.items_path or "$")
        self._paths = {name: Path.compile(_ENVELOPE[name], path) for name, path in said.items() if path}
        self._items = JsonItems(sections, rules)
        self._fast = self._fast_envelope()

    def read(self, body: bytes, span: Span | None, asked: Sequence[str]) -> Page:
        answer = self._as_utf8(body)
        columns = Columns(self._rules, span, len(body))
        marker: bytes | None = None
        try:
            found, raws = self._envelope(answer)
        except (*UNREADABLE, JSONPathError, ValueError) as error:
            answer, marker = _without_half_pairs(answer)
            if marker is None:
                return self._not_json(answer, str(error), columns, asked)
            try:
                found, raws = self._envelope(answer)
            except (*UNREADABLE, JSONPathError, ValueError) as second:
                return self._not_json(answer, str(second), columns, asked)
        if error_text := self._error(found):
            self._errors.settle(error_text)
            return columns.finish(0, asked)
        if raws is None:
            raise self._errors.unreadable(answer, "there is nothing at itemsPath")
        self._around(found, columns.page, answer, marker)
        if marker is None:
            self._items.read_all(raws, columns, page=answer)
        else:
            self._read_marked(raws, columns, marker)
        return columns.finish(len(raws), asked)

    def count(self, body: bytes) -> int:
        """The total alone; the answer need not hold items."""
        answer = self._as_utf8(body)
        try:
            found, _ = self._envelope(answer)
        except (*UNREADABLE, JSONPathError, ValueError) as error:
            self._not_json(answer, str(error), Columns(self._rules, None), ())
            return 0
        if error_text := self._error(found):
            self._errors.settle(error_text)
            return 0
        total = whole_number(found["total"])
        if total is None:
            raise self._errors.unreadable(answer, "there is no number at totalPath")
        return total

    def _as_utf8(self, body: bytes) -> bytes:
        if body[:2] in {b"\xff\xfe", b"\xfe\xff"}:
            try:
                body = body.decode("utf-16").encode()
            except UnicodeError as error:
                raise self._errors.unreadable(body, "UTF-16 that is not valid") from error
        body = body.removeprefix(_BOM)
        start = body[:64].lstrip()
        if not start and not body.strip():
            raise self._errors.unreadable(body, "the answer is empty")
        if start.startswith(b"<"):
            raise self._errors.unreadable(body, "HTML or XML instead of JSON")
        return body

    def _fast_envelope(self) -> Any:
        if self._items_path.query or any(path.query for path in self._paths.values()):
            return None
        shape = Shape()
        shape.ask(self._items_path.lead, "slices")
        for path in self._paths.values():
            shape.ask(path.lead, "raw")
        return shape.build()

    def _envelope(self, answer: bytes) -> tuple[dict[str, str | None], list[Any] | None]:
        """What stands around the items, as text, and the items; None: there are none where they should be."""
        if self._fast is not None:
            decode, getters = self._fast
            try:
                top = decode(answer)
                raws = getters[0](top)
                values = [scalar_text(get(top)) for get in getters[1:]]
            except (msgspec.ValidationError, AttributeError):
                raws = None
            if raws is not None:
                return dict.fromkeys(_ENVELOPE) | dict(zip(self._paths, values, strict=True)), raws
        found: dict[str, str | None] = dict.fromkeys(_ENVELOPE)
        for name, path in self._paths.items():
            texts = [text for text in map(scalar_text, find_raw(path, answer)) if text not in _NOTHING]
            found[name] = "; ".join(filter(None, texts)) if len(texts) != 1 else texts[0]
            if not texts and path.query is None:
                found[name] = scalar_text(walk(answer, path.lead))
        return found, self._slices(answer)

    def _slices(self, answer: bytes) -> list[Any] | None:
        raw = walk(answer, self._items_path.lead)
        if raw is None or not self._items_path.lead:
            msgspec.json.decode(answer, type=msgspec.Raw)  # broken JSON is another matter than a missing key or item
        if raw is None:
            return None
        written = bytes(raw)
        if written == b"null":
            return []
        if written[:1] not in {b"{", b"["}:
            return None
        if self._items_path.query is not None:
            return find_raw(self._items_path, answer)
        # One object instead of a list of them is the answer to a question for one record.
        return _elements.decode(raw) if written[:1] == b"[" else [raw]

    @staticmethod
    def _error(found: dict[str, str | None]) -> str | None:
        return None if found["error"] in _NOTHING else found["error"]

    def _around(self, found: dict[str, str | None], page: Page, answer: bytes, marker: bytes | None) -> None:
        page.total = whole_number(found["total"])
        page.next_token = None if found["token"] in _NOTHING - {"0"} else found["token"]
        page.next_url = None if found["url"] in _NOTHING else found["url"]
        page.has_more = yes_or_no(found["more"])
        page.is_truncated = found["truncated"] not in _NOTHING
        onward = (page.next_token or "") + (page.next_url or "")
        if "\0" in onward or (marker and marker.decode("unicode_escape") in onward):
            raise self._errors.unreadable(answer, "the way to the next page holds a character that cannot be stored")

    def _read_marked(self, raws: list[Any], columns: Columns, marker: bytes) -> None:
        """As `read_all`, for a page in which each half of a surrogate pair has been marked."""
        for no, raw in enumerate(raws):
            body = bytes(raw)
            if marker in body:
                fault = ItemFault(FaultKind.NOT_READABLE, "it holds half of a surrogate pair, which is no character")
                columns.fault(no, fault, body.replace(marker, b"\\ufffd"))
                continue
            try:
                provider_id, updated, more = self._items.read_thoroughly(body)
            except ItemFault as fault:
                columns.fault(no, fault, body)
                continue
            if columns.add(provider_id, updated, body) and more is not None:
                columns.add_more(*more)

    def _not_json(self, answer: bytes, reason: str, columns: Columns, asked: Sequence[str]) -> Page:
        """An error that its sender did not write properly (a line break inside a text) is still told as that error."""
        path = self._paths.get("error")
        if path is not None and len(answer) <= _ERROR_BYTES:
            try:
                lenient = json.dumps(json.loads(answer, strict=False)).encode()
                texts = [text for text in map(scalar_text, find_raw(path, lenient)) if text not in _NOTHING]
            except (*UNREADABLE, JSONPathError, ValueError):
                texts = []
            if texts:
                self._errors.settle("; ".join(filter(None, texts)))
                return columns.finish(0, asked)
        raise self._errors.unreadable(answer, f"not JSON: {reason}"[:200])


def _without_half_pairs(answer: bytes) -> tuple[bytes, bytes | None]:
    """Each half of a surrogate pair replaced by a mark of the same length that stands nowhere else."""
    if b"\\u" not in answer:
        return answer, None
    marker = next((mark for code in range(0xE000, 0xE100) if (mark := b"\\u%04x" % code) not in answer), None)
    if marker is None:
        return answer, None
    count = 0

    def replace(match: re.Match[bytes]) -> bytes:
        nonlocal count
        if match[1] is not None:
            return match[0]
        count += 1
        return marker

    repaired = _SURROGATES.sub(replace, answer)
    return (repaired, marker) if count else (answer, None)
