"""Filters as people write them: `updated_at >= 2024-01-01 and fields.title ~ "heart failure"`.

    filter := term ("and" term)*         term := column operator value
    operators: = != < <= > >= and ~ (contains, in any case)
    a value is one word, or anything between double quotes (\\" and \\\\ inside)

Columns and operators come from a fixed list; values are only ever parameters of the statement.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NoReturn

from psycopg import sql

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

EXAMPLE = 'updated_at >= 2024-01-01 and deleted = false and fields.title ~ "heart failure"'
_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>\"(?:[^\"\\]|\\[\"\\])*\")|(?P<operator><=|>=|!=|[=<>~])|(?P<word>[^\s\"=<>~!]+))"
)
_EQUALITY = ("=", "!=")
_ORDER = (*_EQUALITY, "<", "<=", ">", ">=")
_TEXT = (*_ORDER, "~")
_FIELD = re.compile(r"fields((?:\.[^.\s]+)+)")
_MOST_TERMS = 50
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on `ing_record r`, with the values of its placeholders."""

    condition: sql.Composable = field(default_factory=lambda: sql.SQL("true"))
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # quoted, operator, word, end
    text: str
    position: int


@dataclass(frozen=True, slots=True)
class _Column:
    expression: str
    operators: tuple[str, ...]
    read: Callable[[str], Any]
    expected: str


def _instant(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _whole(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) > _LARGEST:
        raise ValueError(text)
    return int(text)


def _yes_or_no(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _time(name: str) -> _Column:
    return _Column(f"r.{name}", _ORDER, _instant, "a date such as 2024-01-31 or 2024-01-31T12:00:00Z (UTC)")


def _number(name: str) -> _Column:
    return _Column(f"r.{name}", _ORDER, _whole, "a whole number")


def _text(name: str) -> _Column:
    return _Column(f"r.{name}", _TEXT, str, "a word, or text in double quotes")


_COLUMNS = {
    "provider_id": _text("provider_id"),
    "id": _text("provider_id"),
    "version": _text("version"),
    "body": _Column("r.body", ("~",), str, "a word, or text in double quotes"),
    "expr_hash": _Column("r.expr_hash", _EQUALITY, str, "a hash"),
    "updated_at": _time("updated_at"),
    "changed_at": _time("changed_at"),
    "checked_at": _time("checked_at"),
    "first_seen_at": _time("first_seen_at"),
    "deleted": _Column("r.is_deleted", _EQUALITY, _yes_or_no, "true or false"),
    "run": _number("batch_run_id"),
    "revision": _number("revision"),
}
_NAMES = ", ".join([*_COLUMNS, "fields.NAME"])


def parse_where(text: str | None) -> Where:
    """Nothing, or blanks, means all records."""
    if text is None or not text.strip():
        return Where()
    return _Parser(text).read()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._split(text)
        self._next = 0
        self._values: dict[str, Any] = {}

    def read(self) -> Where:
        terms = [self._term()]
        while (token := self._take()).kind != "end":
            if token.kind != "word" or token.text.lower() != "and":
                self._refuse(token, "and, or the end")
            if len(terms) == _MOST_TERMS:
                self._refuse(token, f"at most {_MOST_TERMS} conditions")
            terms.append(self._term())
        return Where(sql.SQL(" and ").join(terms), self._values)

    def _split(self, text: str) -> list[_Token]:
        tokens, position = [], 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                start = len(text) - len(text[position:].lstrip())
                self._refuse(_Token("word", text[start:], start), "a closed pair of quotes, or one of = != < <= > >= ~")
            kind = str(found.lastgroup)
            tokens.append(_Token(kind, found.group(kind), found.start(kind)))
            position = found.end()
        return [*tokens, _Token("end", "", len(text))]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _term(self) -> sql.Composable:
        name = self._take()
        path = _FIELD.fullmatch(name.text) if name.kind == "word" else None
        if path is None and (name.kind != "word" or name.text not in _COLUMNS):
            self._refuse(name, f"one of {_NAMES}")
        column = _COLUMNS.get(name.text, _Column("", _TEXT, str, "a word, or text in double quotes"))
        operator = self._take()
        if operator.kind != "operator" or operator.text not in column.operators:
            self._refuse(operator, f"after {name.text} one of {' '.join(column.operators)}")
        value = self._value(column)
        if path is not None:
            return self._field_term(path.group(1)[1:].split("."), operator.text, value)
        return self._compared(sql.SQL(column.expression), operator.text, value)

    def _value(self, column: _Column) -> Any:
        token = self._take()
        if token.kind not in ("word", "quoted"):
            self._refuse(token, column.expected)
        text = re.sub(r'\\(["\\])', r"\1", token.text[1:-1]) if token.kind == "quoted" else token.text
        if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            self._refuse(token, column.expected)
        try:
            return column.read(text)
        except (ValueError, KeyError, OverflowError):
            self._refuse(token, column.expected)

    def _compared(self, left: sql.Composable, operator: str, value: Any) -> sql.Composable:
        if operator == "~":
            pattern = "%" + re.sub(r"([\\%_])", r"\\\1", value) + "%"
            return sql.SQL("{} ilike {}").format(left, self._placeholder(pattern))
        compares = sql.SQL("is distinct from" if operator == "!=" else operator)  # one of the fixed list
        return sql.SQL("{} {} {}").format(left, compares, self._placeholder(value))

    def _field_term(self, path: list[str], operator: str, value: str) -> sql.Composable:
        """Numbers are compared as numbers where the record has one, everything else as text."""
        where = self._placeholder(path)
        as_text = self._compared(sql.SQL("(r.fields #>> {})").format(where), operator, value)
        if operator == "~" or not re.fullmatch(r"-?[0-9]{1,30}(\.[0-9]{1,30})?", value):
            return as_text
        number = sql.SQL("(r.fields #>> {})::numeric").format(where)
        as_number = self._compared(number, operator, Decimal(value))
        return sql.SQL("case when jsonb_typeof(r.fields #> {}) = 'number' then {} else {} end").format(
            where, as_number, as_text
        )

    def _placeholder(self, value: Any) -> sql.Placeholder:
        name = f"where_{len(self._values)}"
        self._values[name] = value
        return sql.Placeholder(name)

    def _refuse(self, token: _Token, expected: str) -> NoReturn:
        raise PenstockError(
            error_codes.RECORD_FILTER_INVALID,
            position=token.position,
            found=token.text[:40] or "the end",
            expected=expected,
            example=EXAMPLE,
        )
