"""Dates as the services read them: a bound covers all of its smallest unit, so `2026-11` is the whole month."""

import re
from datetime import UTC, datetime, timedelta

_PARTS = re.compile(
    r"(?P<year>\d{4})(?:[-/](?P<month>\d{1,2})(?:[-/](?P<day>\d{1,2})"
    r"(?:[T ](?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,6})\d*)?)?)?)?)?)?"
    r"(?:Z|\+00:00)?"
)
_COMPACT = re.compile(
    r"(?P<year>\d{4})(?:(?P<month>\d{2})(?:(?P<day>\d{2})(?:(?P<hour>\d{2})(?:(?P<minute>\d{2})"
    r"(?P<second>\d{2})?)?)?)?)?(?P<fraction>(?!))?"
)
_STEPS = {
    "fraction": timedelta(microseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
FOREVER = (datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


class NoDate(ValueError):
    """The text is no date in any of the accepted forms."""


def reach(text: str, *, compact: bool = False) -> tuple[datetime, datetime]:
    """The first instant that the text covers, and the first after it."""
    found = (_COMPACT if compact else _PARTS).fullmatch(text.strip())
    if found is None:
        raise NoDate(text)
    part = found.groupdict()
    fraction = int((part["fraction"] or "0").ljust(6, "0"))
    numbers = [int(part[name] or low) for name, low in zip(_NAMES, (1, 1, 1, 0, 0, 0), strict=True)]
    try:
        start = datetime(*numbers, fraction, tzinfo=UTC)  # type: ignore[arg-type]
    except ValueError:
        raise NoDate(text) from None
    return start, _end(start, part)


def _end(start: datetime, part: dict[str, str | None]) -> datetime:
    for name, step in _STEPS.items():
        if part[name] is not None:
            return start + step
    if part["month"] is None:
        return start.replace(year=start.year + 1)
    return (start + timedelta(days=32)).replace(day=1)


_NAMES = ("year", "month", "day", "hour", "minute", "second")


def seconds_text(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"
