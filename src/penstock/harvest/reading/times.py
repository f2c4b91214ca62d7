"""When an item was changed, as a UTC datetime, from whatever a source writes: ISO 8601, epochs, its own format, parts.

Invariant: a value is either read as a time between 1800 and 2200 or refused with `ValueError` and a sentence. A time
far ahead would win over every later version of the record for ever, so it is a fault, not a time. A time without an
offset is UTC; a date without a time is its first moment.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

EARLIEST = datetime(1800, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
_LONGEST = 200  # characters; no way to write a time needs more
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,12})?")
_COMPACT = re.compile(r"((?:1[89]|2[01])[0-9]{2})(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])?")
_COMPACT_TIME = re.compile(
    r"((?:1[89]|2[01])[0-9]{2})(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])([01][0-9]|2[0-3])([0-5][0-9])([0-5][0-9])?"
)
_YEAR_OR_MONTH = re.compile(r"([0-9]{4})(?:[-/]([0-9]{1,2}))?")
_SLASHED = re.compile(r"([0-9]{4})/([0-9]{1,2})/([0-9]{1,2})(?:[ T](.*))?")
_MIDNIGHT_AFTER = re.compile(r"(.*[T ])24(:?00(?::?00(?:\.0+)?)?.*)")
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: no for no, name in enumerate(_MONTH_NAMES, start=1)}
_FIXED = {"Y": r"(?P<Y>[0-9]{4})"} | {code: rf"(?P<{code}>[0-9]{{2}})" for code in "mdHMS"}

Moment = Callable[[Any], datetime]


def moment_reader(format_: str | None) -> Moment:
    """What reads `updatedAt`: by the source's own format, or by the shape of the value."""
    return read_moment if format_ is None else _by_format(format_)


def read_moment(value: Any) -> datetime:
    """ISO 8601 in its usual forms, epochs (seconds to nanoseconds, by size), partial dates, lists of date parts."""
    try:
        return _plausible(_moment(value))
    except OverflowError as error:
        raise ValueError("the time lies outside of what can be written") from error


def _moment(value: Any) -> datetime:
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, bool):
        raise ValueError("true or false is not a time")  # noqa: TRY004  callers make a fault of ValueError
    if isinstance(value, int):
        return _from_digits(str(value))
    if isinstance(value, float):
        return _from_epoch(value)
    if isinstance(value, Sequence):
        return from_parts(value[0] if len(value) == 1 and isinstance(value[0], Sequence) else value)
    raise ValueError("nothing that could be a time" if value is not None else "no time")


def _from_text(value: str) -> datetime:
    text = value.strip()
    _check_length(text)
    if _DIGITS.fullmatch(text):
        return _from_digits(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return _from_unusual_text(text)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _check_length(text: str) -> None:
    if len(text) > _LONGEST:
        raise ValueError(f"not a time: {text[:60]!r} and {len(text) - 60} more characters")


def _from_unusual_text(text: str) -> datetime:
    """Years and months alone, dates with slashes, small letters, the hour 24 and the leap second."""
    if match := _YEAR_OR_MONTH.fullmatch(text):
        return from_parts([part for part in match.groups() if part])
    if match := _SLASHED.fullmatch(text):
        year, month, day, rest = match.groups()
        date = f"{year}-{int(month):02}-{int(day):02}"
        return _from_text(f"{date}T{rest}" if rest else date)
    if match := _MIDNIGHT_AFTER.fullmatch(text):
        return _from_text(f"{match[1]}00{match[2]}") + timedelta(days=1)
    if text.endswith("z") or "t" in text:
        return _from_text(text.upper())
    if re.search(r":[0-9]{2}:60", text):
        return _from_text(re.sub(r":60", ":59", text, count=1)) + timedelta(seconds=1)
    raise ValueError(f"not a time: {text[:60]!r}")


def _from_digits(text: str) -> datetime:
    """Dates without signs between them when the digits are one (20261103), else an epoch."""
    if len(text) == 4 and text.isdigit():
        return from_parts([text])
    if match := _COMPACT.fullmatch(text) or _COMPACT_TIME.fullmatch(text):
        return from_parts([part for part in match.groups() if part])
    return _from_epoch(float(text) if "." in text else int(text))


def _from_epoch(number: float) -> datetime:
    size = abs(number)
    if not size < 1e20:  # also what is not a number
        raise ValueError("the number is too large for a time")
    for limit, unit in ((1e11, 1_000_000), (1e14, 1_000), (1e17, 1)):
        if size < limit:
            return _EPOCH + timedelta(microseconds=number * unit)
    return _EPOCH + timedelta(microseconds=number // 1000)


def from_parts(parts: Sequence[Any]) -> datetime:
    """[2026], [2026, 11, 3], ["2026", "Nov", "3", "4", "12"]: what is not said is the first."""
    try:
        numbers = [_part(part) for part in parts]
        return _plausible(datetime(*([*numbers, 1, 1][: max(3, len(numbers))]), tzinfo=UTC))  # type: ignore[misc,arg-type]
    except (TypeError, OverflowError) as error:
        raise ValueError(f"not the parts of a date: {str(parts)[:60]}") from error


def _part(part: Any) -> int:
    if isinstance(part, str):
        return _MONTHS.get(part.strip()[:3].lower()) or int(part)
    if isinstance(part, int) and not isinstance(part, bool):
        return part
    raise TypeError("a part of a date is a whole number or the name of a month")


def _plausible(found: datetime) -> datetime:
    if not EARLIEST <= found < LATEST:
        raise ValueError(f"the year {found.year} is not a likely one")
    return found if found.tzinfo is UTC else found.astimezone(UTC)


def _by_format(format_: str) -> Moment:
    """Formats of fixed width are read with one pattern: strptime takes several times as long."""
    pattern = _fixed_pattern(format_)

    def read(value: Any) -> datetime:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError(f"not written as {format_}")  # noqa: TRY004  as above
        text = str(value).strip()
        _check_length(text)
        try:
            if pattern and (match := pattern.fullmatch(text)):
                said = {"m": 1, "d": 1, "H": 0, "M": 0, "S": 0} | {k: int(v) for k, v in match.groupdict().items()}
                parts = (said[code] for code in "YmdHMS")
                return _plausible(datetime(*parts, tzinfo=UTC))  # type: ignore[misc,arg-type]
            found = datetime.strptime(text, format_)  # noqa: DTZ007  the next line sees to it
            return _plausible(found.replace(tzinfo=UTC) if found.tzinfo is None else found)
        except OverflowError as error:
            raise ValueError("the time lies outside of what can be written") from error

    return read


def _fixed_pattern(format_: str) -> re.Pattern[str] | None:
    codes = re.findall(r"%(.)", format_)
    if len(set(codes)) != len(codes) or not {"Y"} <= set(codes) <= set(_FIXED):
        return None
    pieces = re.split(r"%(.)", format_)
    return re.compile("".join(_FIXED[piece] if no % 2 else re.escape(piece) for no, piece in enumerate(pieces)))
