"""Durations as sources write them: ISO 8601 (`PT10M`, `P1D`) or short (`10m`, `1d`); written back as ISO 8601."""

import re
from datetime import timedelta
from typing import Any

_ISO = re.compile(r"P(?:(?P<w>\d+)W)?(?:(?P<d>\d+)D)?(?:T(?:(?P<h>\d+)H)?(?:(?P<m>\d+)M)?(?:(?P<s>\d+(?:\.\d+)?)S)?)?")
_SHORT = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|h|d|w)")
_LONGEST = timedelta(days=36_525)  # a century: from now on and back it leads to a moment that can be written
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def read_duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):
        return value
    try:
        found = _read(value)
    except OverflowError:
        found = timedelta.max
    if found > _LONGEST:
        raise ValueError(f"{str(value)[:40]!r} is longer than any duration may be, {_LONGEST.days} days")
    return found


def _read(value: Any) -> timedelta:
    text = value.strip() if isinstance(value, str) else ""
    if short := _SHORT.fullmatch(text):
        return timedelta(seconds=float(short["number"]) * _UNITS[short["unit"]])
    iso = _ISO.fullmatch(text)
    if iso is None or text in {"P", "PT"} or text.endswith("T"):
        raise ValueError(f"{value!r} is no duration: write PT10M or 10m, P1D or 1d")
    part = {name: float(number or 0) for name, number in iso.groupdict().items()}
    return timedelta(weeks=part["w"], days=part["d"], hours=part["h"], minutes=part["m"], seconds=part["s"])


def iso_text(value: timedelta) -> str:
    """The one way to write it, so that equal durations hash equally."""
    micros = round(value / timedelta(microseconds=1))
    days, rest = divmod(micros, 86_400_000_000)
    hours, rest = divmod(rest, 3_600_000_000)
    minutes, rest = divmod(rest, 60_000_000)
    seconds = f"{rest / 1_000_000:.6f}".rstrip("0").rstrip(".")
    time = "".join((f"{hours}H" if hours else "", f"{minutes}M" if minutes else "", f"{seconds}S" if rest else ""))
    return f"P{f'{days}D' if days else ''}{f'T{time}' if time else ''}" if days or time else "PT0S"
