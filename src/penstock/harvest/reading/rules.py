"""What makes an item a record, the same for JSON and XML: its id, its time, its mark of deletion; and what an error
inside an answer means.

Invariant: an item ends up in the columns, or as a fault with its number, or is dropped because it lies outside of the
window; never twice, and never without a trace of the first two.
"""

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from penstock.harvest.page import Fault, FaultKind, Page
from penstock.harvest.patterns import Pattern, PatternUnfit, compile_pattern
from penstock.harvest.reading.times import moment_reader
from penstock.harvest.slices import Span
from penstock.harvest.spec import Sections
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

SAMPLE_BYTES = 1024
# A key of the table of records: PostgreSQL's index takes rows of 2,704 bytes, names of source and endpoint included.
ID_BYTES = 1500
_SEARCHED = 4096  # characters; no id and no error needs more
_MOST_BYTES = 256 * 1024 * 1024  # of the items of one answer, or twice its size
_MOST_CPU_SECONDS = 120
_YES = {"true", "1", "yes", "y"}
_NO = {"false", "0", "no", "n"}


class ItemFault(Exception):
    """This item is no record; the others of its page are."""

    def __init__(self, kind: FaultKind, reason: str, provider_id: str | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.provider_id = provider_id


class Rules:
    """The parts of the sections that judge items, compiled."""

    def __init__(self, sections: Sections, *, ids_only: bool) -> None:
        response = sections.response
        self.ids_only = ids_only
        self.pattern = _pattern("idPattern", response.id_pattern) if response.id_pattern else None
        self.moment = moment_reader(response.updated_at_format)
        self.has_format = response.updated_at_format is not None
        self.by_window = response.updated_at_from == "WINDOW"
        self.filters = sections.window.client_filter and not self.by_window
        self.needs_time = not self.by_window and (
            not ids_only or (self.filters and response.updated_at_path is not None)
        )
        self.granularity = sections.window.granularity
        self.safety_lag = sections.window.safety_lag
        self.has_version = response.version_path is not None and not ids_only
        self.has_deleted = response.deleted_path is not None and not ids_only
        self.deleted_value = response.deleted_value
        self.output = () if ids_only else sections.mapping.output_fields
        self.is_plain = not (self.pattern or self.has_version or self.has_deleted or self.output)

    def id_of(self, parts: Sequence[str | None]) -> str:
        """Several parts are joined; each must be there."""
        if any(part is None or not part.strip() for part in parts):
            raise ItemFault(FaultKind.NO_ID, "the id is missing or empty")
        text = ":".join(part for part in parts if part)
        if self.pattern is not None:
            if len(text) > _SEARCHED:
                raise ItemFault(FaultKind.NO_ID, f"the id is longer than {_SEARCHED} characters")
            found = self.pattern.first_group(text)
            if not found:
                raise ItemFault(FaultKind.NO_ID, f"the id {text[:80]!r} does not match idPattern")
            text = found
        if len(text) * 4 > ID_BYTES and len(text.encode()) > ID_BYTES:
            raise ItemFault(FaultKind.NO_ID, f"the id is longer than {ID_BYTES} bytes")
        return text

    def time_of(self, values: Sequence[Any], provider_id: str) -> datetime:
        """The first value that is there."""
        for value in values:
            if value is not None and value != "":
                try:
                    return self.moment(value)
                except ValueError as error:
                    raise ItemFault(FaultKind.BAD_UPDATED_AT, f"updatedAt: {error}", provider_id) from error
        raise ItemFault(FaultKind.BAD_UPDATED_AT, "updatedAt is missing", provider_id)

    def is_deleted(self, text: str | None) -> bool:
        """Without `deletedValue`: whatever is there and does not say no."""
        if self.deleted_value is not None:
            return text == self.deleted_value
        return text is not None and text.strip().lower() not in {"", "[]", "{}", *_NO}

    def window_time(self, span: Span | None) -> datetime:
        """The last moment of the window. Without one (records fetched by id) it is as if a window had just ended."""
        end = span.end if span else datetime.now(UTC) - self.safety_lag
        return end - self.granularity


class Columns:
    """One page in the making.

    Items may lie in each other, or take over what the whole answer declares: a small answer can make large ones. So
    their bytes and the CPU time that they take are limited.
    """

    def __init__(self, rules: Rules, span: Span | None, size: int = 0) -> None:
        """`size`: of the answer, in bytes."""
        self._most_bytes = max(_MOST_BYTES, 2 * size)
        self.page = Page(
            versions=[] if rules.has_version else None,
            deleted=[] if rules.has_deleted else None,
            fields=[] if rules.output else None,
        )
        self.rules = rules
        self.span = span if rules.filters else None
        self.fixed_time = rules.window_time(span) if rules.by_window and not rules.ids_only else None
        self._dropped: list[str] = []
        self._items = self._bytes = 0
        self._until = time.thread_time() + _MOST_CPU_SECONDS

    def add(self, provider_id: str, updated: datetime | None, body: bytes) -> bool:
        """False: it lies outside of the window and is dropped, and nothing more of it may be added."""
        self._spend(len(body))
        if self.span and updated is not None and not self.span.start <= updated < self.span.end:
            self._dropped.append(provider_id)
            return False
        page = self.page
        page.ids.append(provider_id)
        if not self.rules.ids_only:
            page.updated.append(updated or self.fixed_time)  # type: ignore[arg-type]  # one of them is there
            page.bodies.append(body)
        return True

    def add_more(self, version: str | None, deleted: bool, fields: bytes | None) -> None:
        page = self.page
        if page.versions is not None:
            page.versions.append(version)
        if page.deleted is not None:
            page.deleted.append(deleted)
        if page.fields is not None:
            self._spend(len(fields or b""))
            page.fields.append(fields or b"{}")

    def fault(self, item_no: int, fault: ItemFault, body: bytes) -> None:
        self._spend(len(body))
        found = Fault(item_no, fault.kind, fault.reason, body[:SAMPLE_BYTES], fault.provider_id)
        self.page.faults.append(found)

    def _spend(self, size: int) -> None:
        self._items += 1
        self._bytes += size
        if self._bytes > self._most_bytes:
            reason = f"its items are larger than {self._most_bytes} bytes in all"
        elif self._items % 256 == 0 and time.thread_time() > self._until:
            reason = f"it takes more than {_MOST_CPU_SECONDS} s of CPU time to read"
        else:
            return
        raise PenstockError(error_codes.SOURCE_ANSWER_INVALID, reason=reason)

    def finish(self, served: int, asked: Sequence[str]) -> Page:
        """Ids that were asked for and are not mentioned at all are faults too, numbered after the items."""
        page = self.page
        page.served = served
        if asked:
            known = {*page.ids, *self._dropped, *(fault.provider_id for fault in page.faults)}
            missing = [provider_id for provider_id in dict.fromkeys(asked) if provider_id not in known]
            reason = "asked for by id, and not in the answer"
            page.faults += [
                Fault(served + no, FaultKind.NO_DETAIL, reason, b"", provider_id)
                for no, provider_id in enumerate(missing)
            ]
        return page


class InBandErrors:
    """Errors that come with a 200. What a source says in words is told apart by patterns."""

    def __init__(self, sections: Sections) -> None:
        self._empty = [_pattern("emptyErrors", text) for text in sections.response.empty_errors]
        self._retry = [_pattern("retryErrors", text) for text in sections.response.retry_errors]

    def settle(self, text: str) -> None:
        """Returns when the error only means that there is nothing; raises otherwise."""
        if any(pattern.occurs_in(text[:_SEARCHED]) for pattern in self._empty):
            return
        self.raise_if_passing(text)
        raise PenstockError(error_codes.SOURCE_REFUSED, answer=_storable(text))

    def raise_if_passing(self, text: str) -> None:
        if any(pattern.occurs_in(text[:_SEARCHED]) for pattern in self._retry):
            raise PenstockError(error_codes.SOURCE_UNAVAILABLE, answer=_storable(text))

    def unreadable(self, body: bytes, reason: str) -> PenstockError:
        """The error to raise for an answer that is none; one that says "later" in plain words is worth another try."""
        sample = body[:SAMPLE_BYTES].decode("utf-8", "replace")
        self.raise_if_passing(sample)
        return PenstockError(error_codes.SOURCE_ANSWER_INVALID, reason=reason, sample=_storable(sample))


def _storable(text: str) -> str:
    """Details of errors are kept as evidence, and PostgreSQL holds no NUL."""
    return text[:SAMPLE_BYTES].replace("\0", "�")


def _pattern(key: str, text: str) -> Pattern:
    try:
        return compile_pattern(text)
    except PatternUnfit as unfit:
        problem = {
            "rule": "pattern",
            "key": f"response.{key}",
            "message_zh": f"{text}：{unfit.said.zh}",
            "message_en": f"{text}: {unfit.said.en}",
        }
        raise PenstockError(error_codes.SPEC_INVALID, problems=[problem]) from None


def yes_or_no(text: str | None) -> bool | None:
    word = text.strip().lower() if text else ""
    return True if word in _YES else False if word in _NO else None


def whole_number(text: str | None) -> int | None:
    """A total, also when it is written as text or as 12.0; None for what is no count."""
    match = re.fullmatch(r"\s*([0-9]{1,18})(?:\.0*)?\s*", text) if text else None
    return int(match[1]) if match else None
