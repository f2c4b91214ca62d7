"""What a source sent back, and what its headers say about limits and clocks.

Header values come from outside: whatever does not read as a sane number counts as not there, and no answer can silence
us for longer than a day.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

LONGEST_SILENCE = timedelta(days=1)
_NUMBER = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)")
_REMAINING = ("x-ratelimit-remaining", "x-rate-limit-remaining", "ratelimit-remaining")
_LIMIT = ("x-ratelimit-limit", "x-rate-limit-limit", "ratelimit-limit")
_RESET = ("x-ratelimit-reset", "x-rate-limit-reset", "ratelimit-reset")
_INTERVAL = ("x-rate-limit-interval", "x-ratelimit-interval")
_STRUCTURED = re.compile(r";\s*([rtqw])=(\d{1,15})")
_DURATION = re.compile(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*(ms|s|m|h|d)?\s*")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_EPOCH_FROM = 1_000_000_000
_MILLIS_FROM = 100_000_000_000
_OLDEST_COPY = 10 * 366 * 86_400  # seconds; what claims to be older tells no time
_TOO_FAST = re.compile(rb"(?i)\s*(?:\{\s*\"(?:error|message)\"\s*:\s*\")?(?:api\s+)?rate\s+(?:limit\s+)?exceeded")


@dataclass(frozen=True, slots=True)
class Answer:
    """Headers have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")

    @property
    def says_too_fast(self) -> bool:
        """By its status, or in words: some refuse politely, with 200 or 503 and one sentence."""
        if self.status == 429:
            return True
        return (self.status < 300 or self.status == 503) and _TOO_FAST.match(self.body[:200]) is not None


@dataclass(frozen=True, slots=True)
class Hints:
    """Limits as the headers tell them."""

    retry_after: float | None = None  # seconds
    remaining: int | None = None
    limit: int | None = None
    reset: datetime | None = None
    rate: float | None = None  # permits per second

    def shown(self) -> dict[str, Any]:
        """For evidence."""
        return {
            "retryAfter": self.retry_after,
            "rateLimitRemaining": self.remaining,
            "rateLimitLimit": self.limit,
            "rateLimitReset": self.reset.isoformat() if self.reset else None,
            "rateLimitPerSecond": self.rate,
        }


def hints_of(headers: Mapping[str, str], now: datetime) -> Hints:
    limit, interval = _number(_first(headers, _LIMIT)), _seconds(_first(headers, _INTERVAL))
    structured = dict(_STRUCTURED.findall(headers.get("ratelimit", "")))
    policy = dict(_STRUCTURED.findall(headers.get("ratelimit-policy", "")))
    remaining = _number(_first(headers, _REMAINING) or structured.get("r"))
    quota = _number(policy.get("q"))
    return Hints(
        retry_after=retry_after(headers.get("retry-after"), now),
        remaining=None if remaining is None else int(remaining),
        limit=None if (limit or quota) is None else int(limit or quota or 0),
        reset=_reset(_first(headers, _RESET) or structured.get("t"), now),
        rate=_rate(limit, interval) or _rate(quota, _number(policy.get("w"))),
    )


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds, given as seconds or as a date of HTTP."""
    if not value:
        return None
    most = LONGEST_SILENCE.total_seconds()
    if found := _NUMBER.fullmatch(value.strip()):
        return min(float(found[1]), most)
    moment = _http_date(value)
    return None if moment is None else min(max(0.0, (moment - now).total_seconds()), most)


def date_behind(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """How far the source's clock is behind ours; negative when it is ahead. A cache tells the age of its copy."""
    moment, age = _http_date(headers.get("date", "")), _number(headers.get("age")) or 0
    if moment is None or age > _OLDEST_COPY:
        return None
    return now - moment - timedelta(seconds=age)


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _reset(text: str | None, now: datetime) -> datetime | None:
    """Seconds from now, or a moment in seconds or milliseconds since 1970."""
    number = _number(text)
    if number is None:
        return None
    if number >= _MILLIS_FROM:
        number /= 1000
    ahead = number - now.timestamp() if number >= _EPOCH_FROM else number
    return now + timedelta(seconds=min(max(0.0, ahead), LONGEST_SILENCE.total_seconds()))


def _rate(permits: float | None, seconds: float | None) -> float | None:
    """Whoever were told of a slower one would not ask again, and so never hear of a better."""
    return max(permits / seconds, 1 / LONGEST_SILENCE.total_seconds()) if permits and seconds else None


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((headers[name] for name in names if name in headers), None)


def _number(text: str | None) -> float | None:
    found = _NUMBER.match(text or "")
    return None if found is None else float(found[1])


def _seconds(text: str | None) -> float | None:
    found = _DURATION.fullmatch(text or "")
    return None if found is None else float(found[1]) * _UNITS[found[2] or "s"]
