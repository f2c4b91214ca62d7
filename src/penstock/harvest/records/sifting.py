"""Which items of a page go to the table: storable ones, one per id, in the order of their ids.

What PostgreSQL cannot hold (a NUL, bytes that are no UTF-8, an id too long for an index) would fail its whole page;
it becomes a fault of that item alone.
"""

import re
from typing import Any

from penstock.harvest.page import Fault, FaultKind, Page

MAX_ID_BYTES = 800  # it is part of a key, and of the ordering key of an event
_MAX_BYTES_OF_A_LETTER = 4
_NUMBER = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?")
_NUL_ESCAPE = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


def set_aside(page: Page) -> None:
    """Turn items that cannot be stored into faults of the page. Faults are numbered after the items of the answer."""
    if _is_clean(page):
        return
    versions = page.versions or [None] * len(page.ids)
    verdicts = [_trouble(*each) for each in zip(page.ids, page.bodies, versions, strict=True)]
    number = max([page.served, len(page.ids) + len(page.faults), *(fault.item_no + 1 for fault in page.faults)])
    for given, body, verdict in zip(page.ids, page.bodies, verdicts, strict=True):
        if verdict is not None:
            kind, reason = verdict
            page.faults.append(Fault(number, kind, reason, body[:1024], given[:200]))
            number += 1
    keep = [position for position, verdict in enumerate(verdicts) if verdict is None]
    page.ids, page.updated, page.bodies = (
        pick(page.ids, keep), pick(page.updated, keep), pick(page.bodies, keep),
    )  # fmt: skip
    page.versions = None if page.versions is None else pick(page.versions, keep)
    page.deleted = None if page.deleted is None else pick(page.deleted, keep)
    page.fields = None if page.fields is None else pick(page.fields, keep)


def pick(values: list[Any], positions: list[int]) -> list[Any]:
    return [values[position] for position in positions]


def _is_clean(page: Page) -> bool:
    """The whole page at once: with a line end in between no letter can begin in one item and end in the next."""
    if not all(page.ids) or max(map(len, page.ids), default=0) * _MAX_BYTES_OF_A_LETTER > MAX_ID_BYTES:
        return False
    bodies, words = b"\n".join(page.bodies), "\n".join(page.ids)
    if page.versions is not None:
        words += "".join(filter(None, page.versions))
    return _is_storable(words) and b"\0" not in bodies and (bodies.isascii() or _is_text(bodies))


def _is_storable(word: str) -> bool:
    """No NUL, and no half of a surrogate pair."""
    if word.isascii():
        return "\0" not in word
    try:
        return b"\0" not in word.encode()
    except UnicodeEncodeError:
        return False


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _trouble(given: str, body: bytes, version: str | None) -> tuple[FaultKind, str] | None:
    if not given:
        return FaultKind.NO_ID, "the id is empty"
    if not _is_storable(given) or len(given.encode()) > MAX_ID_BYTES:
        return FaultKind.NO_ID, f"the id holds a NUL, is no proper text or is longer than {MAX_ID_BYTES} bytes"
    if version is not None and not _is_storable(version):
        return FaultKind.NOT_READABLE, "the version holds a NUL or is no proper text"
    if b"\0" in body or not _is_text(body):
        return FaultKind.NOT_READABLE, "the item holds a NUL or bytes that are not UTF-8"
    return None


def without_nul(fields: list[bytes]) -> list[bytes]:
    """`jsonb` has no place for \\u0000; the body keeps it, the mapped field shows a replacement character."""
    if not any(b"\\u0000" in each for each in fields):
        return fields
    return [_NUL_ESCAPE.sub(rb"\1\\ufffd", each) for each in fields]


def one_per_id(page: Page, *, last_wins: bool) -> list[int]:
    """Positions in the order of their ids. Of several with one id the newest counts; every writer uses this order."""
    if len(set(page.ids)) == len(page.ids):
        return sorted(range(len(page.ids)), key=page.ids.__getitem__)
    best: dict[str, int] = {}
    for position, given in enumerate(page.ids):
        held = best.get(given)
        if held is None or _replaces(page, position, held, last_wins):
            best[given] = position
    return [best[given] for given in sorted(best)]


def _replaces(page: Page, new: int, old: int, last_wins: bool) -> bool:
    if page.updated[new] != page.updated[old]:
        return page.updated[new] > page.updated[old]
    after, before = (page.versions[new], page.versions[old]) if page.versions else (None, None)
    return outranks(after, before) or (last_wins and not outranks(before, after))


def outranks(new: str | None, old: str | None) -> bool:
    """Numbers by value, words by their letters, words after numbers: one order, whoever compares with whom."""
    if new is None or old is None:
        return False
    new_is_number, old_is_number = _NUMBER.fullmatch(new), _NUMBER.fullmatch(old)
    if new_is_number and old_is_number:
        return exactly(new) > exactly(old)
    if bool(new_is_number) != bool(old_is_number):
        return not new_is_number
    return new > old


def exactly(number: str) -> tuple[int, str]:
    whole, _, part = number.partition(".")
    return int(whole), part.rstrip("0")
