"""The functions that templates may call. They never raise: CEL would write the failure to standard error.

A failure is noted in a list that belongs to one evaluation; the template turns it into EXPRESSION_FAILED. What the
calls of one evaluation read as JSON and write as text is counted, and ends at a limit.
"""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote

import jsonpath

Failures = list[str]
_LONGEST_FORMAT = 200
_LONGEST_PATH = 500
_LONGEST_JSON = 65_536
_LONGEST_ENCODED = 131_072
_LONGEST_TEXT = 1_048_576
_MOST_MADE = 1_048_576  # characters, by all calls of one evaluation


class _Refused(Exception):
    """In words."""


def _format_date_time(now: datetime, value: Any, pattern: Any) -> Any:
    del now
    if value is None:
        return None
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime) or not isinstance(pattern, str) or len(pattern) > _LONGEST_FORMAT:
        raise _Refused("wants a timestamp and a pattern such as '%Y/%m/%d'")
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).strftime(pattern)


def _coalesce(now: datetime, *values: Any) -> Any:
    del now
    return next((value for value in values if value is not None), None)


def _concat(now: datetime, *values: Any) -> str:
    del now
    return "".join(_text(value) for value in values)


def _join(now: datetime, values: Any, separator: Any = ",") -> Any:
    del now
    if values is None:
        return None
    if not isinstance(values, list) or not isinstance(separator, str):
        raise _Refused("wants a list and a text to put between")
    return separator.join(_text(value) for value in values)


def _json_path(now: datetime, value: Any, path: Any) -> Any:
    del now
    if value is None:
        return None
    if not isinstance(path, str) or len(path) > _LONGEST_PATH:
        raise _Refused("wants a value and a path")
    if isinstance(value, str):
        if len(value) > _LONGEST_JSON:
            raise _Refused(f"reads at most {_LONGEST_JSON} characters")
        value = json.loads(value)
    try:
        found = _single_path(path).match(value)
    except (jsonpath.JSONPathError, RecursionError) as failure:
        raise _Refused(f"cannot follow {path}: {type(failure).__name__}") from None
    return None if found is None else found.value


@lru_cache(maxsize=256)
def _single_path(path: str) -> jsonpath.JSONPath:
    """A path of names and indexes leads to one value, in as many steps as it has."""
    found = jsonpath.compile(path, strict=True)
    if not isinstance(found, jsonpath.JSONPath) or not found.singular_query():
        raise _Refused(f"takes a path of names and indexes, not {path}")
    return found


def _url_encode(now: datetime, value: Any) -> Any:
    del now
    if value is None:
        return None
    text = _text(value)
    if len(text) > _LONGEST_ENCODED:
        raise _Refused(f"encodes at most {_LONGEST_ENCODED} characters")
    return quote(text, safe="")


def _replace(now: datetime, text: Any, old: Any, new: Any) -> Any:
    del now
    if text is None:
        return None
    if not isinstance(text, str) or not isinstance(old, str) or not isinstance(new, str) or not old:
        raise _Refused("wants a text, what to replace in it and what to put there")
    if len(text) + text.count(old) * len(new) > _LONGEST_TEXT:
        raise _Refused(f"makes at most {_LONGEST_TEXT} characters")
    return text.replace(old, new)


def _now(now: datetime) -> datetime:
    return now


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "now": _now,
    "formatDateTime": _format_date_time,
    "coalesce": _coalesce,
    "concat": _concat,
    "join": _join,
    "jsonPath": _json_path,
    "urlEncode": _url_encode,
    "replace": _replace,  # only where a source allows it by name
}


def bound_to(names: Iterable[str], now: datetime | None, failures: Failures) -> dict[str, Callable[..., Any]]:
    """The functions for one evaluation, at one moment."""
    moment = now or datetime.now(UTC)
    made = [0]
    return {name: _noting(name, partial(FUNCTIONS[name], moment), made, failures) for name in names}


def _noting(name: str, function: Callable[..., Any], made: list[int], failures: Failures) -> Callable[..., Any]:
    """`made` counts characters; after a failure the rest of an evaluation is not worth its time."""

    def call(*arguments: Any) -> Any:
        if failures:
            return None
        try:
            return _counted(made, function(*arguments), arguments)
        except _Refused as refused:
            failures.append(f"{name}() {refused}")
        except TypeError:
            failures.append(f"{name}() does not take {len(arguments)} arguments of these types")
        except (ValueError, OverflowError, OSError):
            failures.append(f"{name}() cannot read its argument")
        return None

    return call


def _counted(made: list[int], found: Any, arguments: tuple[Any, ...]) -> Any:
    made[0] += sum(len(text) for text in (found, *arguments) if isinstance(text, str))
    if made[0] > _MOST_MADE:
        raise _Refused(f"and the other calls take and make at most {_MOST_MADE} characters")
    return found


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, str | int | float):
        return str(value)
    raise _Refused("takes texts, numbers and timestamps only")
