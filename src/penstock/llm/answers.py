"""What an endpoint sends back: the completion in its envelope, what it cost, and what its headers say of limits.

All of it comes from outside: whatever is not of the form it should have counts as not there.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from penstock.kernel import json

_LONGEST_SILENCE = 86_400.0
_MOST_TOKENS = 1_000_000_000
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_FENCE = re.compile(r"```[a-zA-Z]*[^\S\n]*\n")  # its beginning; the end is looked for apart, once
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


class NotReadable(ValueError):
    """The answer, or the JSON in it, is none."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What headers say; seconds."""

    retry_after: float | None = None
    requests_left: int | None = None
    requests_reset: float | None = None
    tokens_left: int | None = None
    tokens_reset: float | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer of a model. Tokens are None where the endpoint does not say."""

    content: str
    refusal: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    request_id: str | None = None
    limits: Limits = Limits()


def completion_of(said: Any, request_id: str | None, limits: Limits) -> Completion:
    """The first choice; raises NotReadable when this is no completion."""
    try:
        choice = said["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise NotReadable("there is no message in it") from None
    usage = said.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    prompt, output = _tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens"))
    is_counted = prompt is not None and output is not None and prompt > 0
    return Completion(
        content if isinstance(content, str) else _joined(content),
        refusal if isinstance(refusal, str) and refusal.strip() else None,
        _word(choice.get("finish_reason")),
        prompt if is_counted else None,
        output if is_counted else None,
        request_id or _word(said.get("id")),
        limits,
    )


def json_in(content: str) -> Any:
    """The JSON of an answer, also out of a code fence or behind a thought that was spoken aloud."""
    text = _THOUGHT.sub("", content).strip().removeprefix("\ufeff")
    if not text.startswith(("{", "[")) and (fence := _FENCE.search(text)):
        fenced, end, _ = text[fence.end() :].partition("```")
        text = fenced if end else text
    try:
        return json.loads(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as wrong:
        raise NotReadable(str(wrong) or "it is nested too deeply") from None


def limits_of(headers: Mapping[str, str], now: datetime) -> Limits:
    return Limits(
        retry_after(headers, now),
        _count(headers.get("x-ratelimit-remaining-requests")),
        duration(headers.get("x-ratelimit-reset-requests")),
        _count(headers.get("x-ratelimit-remaining-tokens")),
        duration(headers.get("x-ratelimit-reset-tokens")),
    )


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds, given as milliseconds, seconds or a date."""
    millis, value = headers.get("retry-after-ms", "").strip(), headers.get("retry-after", "").strip()
    if _NUMBER.fullmatch(millis):
        return min(float(millis) / 1000, _LONGEST_SILENCE)
    if _NUMBER.fullmatch(value):
        return min(float(value), _LONGEST_SILENCE)
    try:
        moment = parsedate_to_datetime(value)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return min(max(0.0, (moment - now).total_seconds()), _LONGEST_SILENCE)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def duration(text: str | None) -> float | None:
    """`6m0s`, `20ms` or bare seconds."""
    text = (text or "").strip()
    if _NUMBER.fullmatch(text):
        return min(float(text), _LONGEST_SILENCE)
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return min(sum(float(number) * _UNITS[unit] for number, unit in parts), _LONGEST_SILENCE)


def word(text: str | None) -> str | None:
    """A name from outside that goes into tables and logs."""
    return _word(text)


def _word(value: Any) -> str | None:
    if not isinstance(value, str) or not value.strip():
        return None
    return "".join(sign for sign in value[:128] if sign.isprintable() and sign.isascii()) or None


def _joined(parts: Any) -> str:
    """Some servers send content as a list of parts."""
    if not isinstance(parts, list):
        return ""
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _tokens(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if is_count else None


def _count(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if re.fullmatch(r"\d{1,12}", text) else None
