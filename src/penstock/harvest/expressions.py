"""Templates: text with CEL expressions in it, `updated:${formatDateTime(window.from, "%Y-%m-%d")}`.

A template is parsed once and checked before it is ever used: known variables, allowed functions, no loops (ADR 0028).
Evaluation is bounded: without loops an expression does each of its operations once, so its length, the number of its
operands and the size of what it is given bound its time; patterns are refused, because one is compiled at each use.
Invariant: an expression reads what it is given and nothing else, no files, no network, no environment; a failure is
EXPRESSION_FAILED with a reason in words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import quote

from penstock.harvest import cel, cel_tokens
from penstock.harvest.cel_tokens import Expression, Unfit
from penstock.harvest.functions import FUNCTIONS, Failures, bound_to
from penstock.harvest.spec import Expr
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

LONGEST_TEMPLATE = 8_192
LONGEST_EXPRESSION = 2_048
LONGEST_RESULT = 1_048_576
MOST_OPERANDS = 50  # variables and calls in one expression
MOST_GIVEN = 1_048_576  # characters of what it reads, all of it counted for each reading
_ELEMENT = 100  # characters that an element of a list counts for: it takes as long as a text of that length
VARIABLES: Mapping[str, frozenset[str] | None] = {  # None: members are not known beforehand
    "window": frozenset({"from", "to"}),
    "page": frozenset({"no", "offset", "size", "token", "url"}),
    "ids": frozenset(),
    "param": None,
}
ALL_FUNCTIONS: tuple[str, ...] = Expr().allowed_functions
_OWN = frozenset(  # CEL's, which stay whatever a source allows
    ["size", "string", "int", "double", "has", "duration", "timestamp", "contains", "startsWith", "endsWith"]
)
_FAILURES = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)

NullPolicy = Literal["omit", "empty", "fail"]


@dataclass(frozen=True, slots=True)
class _Code:
    """One `${…}`."""

    text: str
    program: cel.Program
    names: tuple[str, ...]  # of variables
    functions: tuple[str, ...]  # ours, that it calls
    members: tuple[tuple[str, str], ...]  # read somewhere; null when not given
    is_encoded: bool  # its value is percent-encoded already
    reads: int  # how often it reads a variable

    def value(self, context: Mapping[str, Any]) -> Any:
        failures: Failures = []
        given = {name: context[name] for name in self.names if name in context}
        variables = {name: dict(value) if isinstance(value, Mapping) else value for name, value in given.items()}
        for name, member in self.members:
            variables.setdefault(name, {}).setdefault(member, None)
        if self.reads * _letters(list(variables.values())) > MOST_GIVEN:
            raise Unfit(f"it reads more than {MOST_GIVEN} characters")
        functions = bound_to(self.functions, context.get("now"), failures)
        try:
            found = self.program.execute(cel.Context(variables, functions))
        except _FAILURES as failure:
            raise Unfit(failures[0] if failures else _plain(failure)) from None
        if failures:
            raise Unfit(failures[0])
        return found


@dataclass(frozen=True, slots=True)
class Template:
    """`render` gives null only for a template that is one `${…}` and nothing else; what then, the caller decides."""

    text: str
    parts: tuple[str | _Code, ...]
    time_format: str = "%Y-%m-%dT%H:%M:%SZ"
    null_policy: NullPolicy = "omit"

    @classmethod
    def parse(cls, text: str, allowed_functions: Sequence[str] = ALL_FUNCTIONS, expr: Expr | None = None) -> "Template":
        """Cached: the same text is compiled once in a process."""
        expr = expr or Expr()
        return _parse(text, tuple(allowed_functions), expr.time_format, expr.null_policy)

    @property
    def is_single(self) -> bool:
        return len(self.parts) == 1 and isinstance(self.parts[0], _Code)

    def value(self, context: Mapping[str, Any]) -> Any:
        """As `render`, but a single expression keeps its type: numbers, truth and lists for JSON bodies."""
        found = self._evaluate(self.parts[0], context) if self.is_single else self.render(context)
        return self._shown(found) if isinstance(found, datetime) else found

    def render(self, context: Mapping[str, Any], *, encode: bool = False) -> str | None:
        """`encode`: each value is percent-encoded, so that it stays within one segment of a path."""
        texts = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            found = self._evaluate(part, context)
            if found is None and self.is_single:
                return None
            if found is None and self.null_policy == "fail":
                raise self._failed(f"${{{part.text}}} is null")
            shown = "" if found is None else self._shown(found)
            texts.append(quote(shown, safe="") if encode and not part.is_encoded else shown)
        rendered = "".join(texts)
        if len(rendered) > LONGEST_RESULT:
            raise self._failed(f"the result is longer than {LONGEST_RESULT} characters")
        return rendered

    def _evaluate(self, part: str | _Code, context: Mapping[str, Any]) -> Any:
        if isinstance(part, str):
            return part
        try:
            return part.value(context)
        except Unfit as wrong:
            raise self._failed(str(wrong)) from None

    def _shown(self, value: Any) -> str:
        match value:
            case str():
                return value
            case bool():
                return "true" if value else "false"
            case int():
                return str(value)
            case float():
                return str(int(value)) if value.is_integer() else repr(value)
            case datetime():
                return value.astimezone(UTC).strftime(self.time_format)
            case list():
                return ",".join("" if one is None else self._shown(one) for one in value)
        raise self._failed(f"a value of type {type(value).__name__} cannot be written into a request")

    def _failed(self, reason: str) -> PenstockError:
        return PenstockError(error_codes.EXPRESSION_FAILED, template=self.text[:500], reason=reason)


def check_template(text: str, allowed: Sequence[str] = ALL_FUNCTIONS) -> str | None:
    """What is wrong with a template, in words; None when it is fit for use. Cached, as each endpoint asks anew."""
    return _wrong_with(text, frozenset(allowed))


@lru_cache(maxsize=4096)
def _wrong_with(text: str, allowed: frozenset[str]) -> str | None:
    try:
        _parts(text, allowed)
    except Unfit as wrong:
        return str(wrong)
    return None


def is_template(text: str) -> bool:
    return "${" in text


@lru_cache(maxsize=4096)
def _parse(text: str, allowed: tuple[str, ...], time_format: str, null_policy: NullPolicy) -> Template:
    try:
        return Template(text, _parts(text, frozenset(allowed)), time_format, null_policy)
    except Unfit as wrong:
        raise PenstockError(error_codes.EXPRESSION_FAILED, template=text[:500], reason=str(wrong)) from None


def _parts(text: str, allowed: frozenset[str]) -> tuple[str | _Code, ...]:
    if len(text) > LONGEST_TEMPLATE:
        raise Unfit(f"a template has at most {LONGEST_TEMPLATE} characters")
    parts: list[str | _Code] = []
    plain, at = "", 0
    while at < len(text):
        if text.startswith("$${", at):
            plain, at = plain + "${", at + 3
        elif text.startswith("${", at):
            tokens, end = cel_tokens.read(text, at + 2)
            if plain:
                parts.append(plain)
            parts.append(_compiled(text[at + 2 : end], Expression(tokens), allowed))
            plain, at = "", end + 1
        else:
            plain, at = plain + text[at], at + 1
    return (*parts, plain) if plain or not parts else tuple(parts)


def _compiled(code: str, expression: Expression, allowed: frozenset[str]) -> _Code:
    if len(code) > LONGEST_EXPRESSION:
        raise Unfit(f"an expression has at most {LONGEST_EXPRESSION} characters")
    callable_names = sorted(allowed & FUNCTIONS.keys())
    expression.check(callable_names, _OWN, VARIABLES)
    calls, names = expression.calls(), expression.names()
    if len(calls) + len(names) > MOST_OPERANDS:
        raise Unfit(f"an expression reads and calls at most {MOST_OPERANDS} times")
    try:
        program = cel.compile(code)
    except _FAILURES as failure:
        raise Unfit(_plain(failure)) from None
    if strange := sorted({*program.variables()} - {*names}):
        raise Unfit(f"unknown name {strange[0]}; known are {', '.join(VARIABLES)}")
    ours = tuple(dict.fromkeys(name for name in calls if name in FUNCTIONS))
    is_encoded = expression.is_call_of("urlEncode")
    return _Code(code, program, tuple(dict.fromkeys(names)), ours, _members(expression), is_encoded, len(names))


def _members(expression: Expression) -> tuple[tuple[str, str], ...]:
    found: dict[tuple[str, str], None] = {}
    asked: set[tuple[str, str]] = set()
    for name, member, is_asked in expression.members():
        known = VARIABLES.get(name)
        if known is not None and member not in known:
            hint = f"{name} has {', '.join(sorted(known))}" if known else f"{name} is a list"
            raise Unfit(f"unknown name {name}.{member}; {hint}")
        found[name, member] = None
        if is_asked:
            asked.add((name, member))
    return tuple(each for each in found if each not in asked)


def _letters(value: Any) -> int:
    """How many characters a value counts for, with all that it holds."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(_ELEMENT + _letters(each) for each in value.values())
    return sum(_ELEMENT + _letters(each) for each in value) if isinstance(value, list | tuple) else 0


def _plain(failure: BaseException) -> str:
    """CEL's own words, without its drawing and its advice."""
    if isinstance(failure, KeyError):
        return f"there is no {failure}"
    text = str(failure)
    if (at := text.find("ERROR: <input>:")) >= 0:
        text = text[at + len("ERROR: <input>:") :]
    return " ".join(text.split("\n", 1)[0].split())[:300]
