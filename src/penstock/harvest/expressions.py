"""Templates: text with CEL expressions in it, `updated:${formatDateTime(window.from, "%Y-%m-%d")}`.

A template is parsed once and checked before it is ever used: known variables, allowed functions, no loops. Evaluation
is bounded: CEL has no recursion, its regular expressions are linear, its macros over lists (which can be nested) are
refused, and lengths are limited. Invariant: an expression reads what it is given and nothing else, no files, no
network, no environment; a failure is EXPRESSION_FAILED with a reason in words.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import quote

from penstock.harvest import cel
from penstock.harvest.functions import FUNCTIONS, Failures, bound_to
from penstock.harvest.spec import Expr
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

LONGEST_TEMPLATE = 8_192
LONGEST_EXPRESSION = 2_048
LONGEST_RESULT = 1_048_576
VARIABLES: Mapping[str, frozenset[str] | None] = {  # None: members are not known beforehand
    "window": frozenset({"from", "to"}),
    "page": frozenset({"no", "offset", "size", "token", "url"}),
    "ids": frozenset(),
    "param": None,
    "plan": None,
    "slice": None,
}
ALL_FUNCTIONS: tuple[str, ...] = Expr().allowed_functions
_OWN = frozenset(  # CEL's, which stay whatever a source allows
    ["size", "string", "int", "double", "has", "duration", "timestamp", "contains", "startsWith", "endsWith", "matches"]
)
_MACROS = re.compile(r"\.\s*(map|filter|all|exists|exists_one)\s*\(")
_STRING = re.compile(r"""[rR]?(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')""", re.DOTALL)
_MEMBER = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*(?:\.\s*([A-Za-z_]\w*)(?!\s*[\w(]))?")
_HAS = re.compile(r"\bhas\s*\(\s*([A-Za-z_]\w*)\s*\.\s*([A-Za-z_]\w*)\s*\)")
_WHOLLY_ENCODED = re.compile(r"\s*urlEncode\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*")
_COMMENT = re.compile(r"//[^\n]*")
_FAILURES = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)

NullPolicy = Literal["omit", "empty", "fail"]


class _Wrong(Exception):
    """What is wrong with a template, in words."""


@dataclass(frozen=True, slots=True)
class _Code:
    """One `${…}`."""

    text: str
    program: cel.Program
    names: tuple[str, ...]  # of variables
    functions: tuple[str, ...]  # ours, that it calls
    members: tuple[tuple[str, str], ...]  # read somewhere; null when not given
    is_encoded: bool  # its value is percent-encoded already

    def value(self, context: Mapping[str, Any]) -> Any:
        failures: Failures = []
        given = {name: context[name] for name in self.names if name in context}
        variables = {name: dict(value) if isinstance(value, Mapping) else value for name, value in given.items()}
        for name, member in self.members:
            variables.setdefault(name, {}).setdefault(member, None)
        functions = bound_to(self.functions, context.get("now"), failures)
        try:
            found = self.program.execute(cel.Context(variables, functions))
        except _FAILURES as failure:
            raise _Wrong(failures[0] if failures else _plain(failure)) from None
        if failures:
            raise _Wrong(failures[0])
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
        except _Wrong as wrong:
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
    """What is wrong with a template, in words; None when it is fit for use."""
    try:
        _parts(text, frozenset(allowed))
    except _Wrong as wrong:
        return str(wrong)
    return None


def is_template(text: str) -> bool:
    return "${" in text


@lru_cache(maxsize=4096)
def _parse(text: str, allowed: tuple[str, ...], time_format: str, null_policy: NullPolicy) -> Template:
    try:
        return Template(text, _parts(text, frozenset(allowed)), time_format, null_policy)
    except _Wrong as wrong:
        raise PenstockError(error_codes.EXPRESSION_FAILED, template=text[:500], reason=str(wrong)) from None


def _parts(text: str, allowed: frozenset[str]) -> tuple[str | _Code, ...]:
    if len(text) > LONGEST_TEMPLATE:
        raise _Wrong(f"a template has at most {LONGEST_TEMPLATE} characters")
    parts: list[str | _Code] = []
    plain, at = "", 0
    while at < len(text):
        if text.startswith("$${", at):
            plain, at = plain + "${", at + 3
        elif text.startswith("${", at):
            end = _end(text, at + 2)
            if plain:
                parts.append(plain)
            parts.append(_compiled(text[at + 2 : end], allowed))
            plain, at = "", end + 1
        else:
            plain, at = plain + text[at], at + 1
    return (*parts, plain) if plain or not parts else tuple(parts)


def _end(text: str, at: int) -> int:
    """Where the brace that closes an expression is: not inside a string, nor one of a map."""
    begin, depth = at, 0
    while at < len(text):
        if string := _STRING.match(text, at):
            at = string.end()
            continue
        if text[at] == "}" and depth == 0:
            return at
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
    raise _Wrong(f"${{{text[begin : begin + 40]}… has no closing brace")


def _compiled(code: str, allowed: frozenset[str]) -> _Code:
    if len(code) > LONGEST_EXPRESSION:
        raise _Wrong(f"an expression has at most {LONGEST_EXPRESSION} characters")
    try:
        program = cel.compile(code)
    except _FAILURES as failure:
        raise _Wrong(_plain(failure)) from None
    bare = _COMMENT.sub("", _STRING.sub('""', code))
    if macro := _MACROS.search(bare):
        raise _Wrong(f"{macro[1]}() is not allowed: expressions do not loop")
    called = [name for name in program.functions() if name.isidentifier() and name[0] != "_" and name not in _OWN]
    for name in called:
        if name not in allowed or name not in FUNCTIONS:
            known = ", ".join(sorted(allowed & FUNCTIONS.keys())) or "none"
            raise _Wrong(f"the function {name} is not allowed; allowed are {known}")
    names = tuple(program.variables())
    unknown = [name for name in names if name not in VARIABLES]
    if unknown:
        raise _Wrong(f"unknown name {unknown[0]}; known are {', '.join(VARIABLES)}")
    is_encoded = _WHOLLY_ENCODED.fullmatch(bare) is not None
    return _Code(code, program, names, tuple(called), _members(bare), is_encoded)


def _members(bare: str) -> tuple[tuple[str, str], ...]:
    asked = set(_HAS.findall(bare))
    found: dict[tuple[str, str], None] = {}
    for name, member in _MEMBER.findall(bare):
        if name not in VARIABLES or not member:
            continue
        known = VARIABLES[name]
        if known is not None and member not in known:
            hint = f"{name} has {', '.join(sorted(known))}" if known else f"{name} is a list"
            raise _Wrong(f"unknown name {name}.{member}; {hint}")
        if (name, member) not in asked:
            found[name, member] = None
    return tuple(found)


def _plain(failure: BaseException) -> str:
    """CEL's own words, without its drawing and its advice."""
    if isinstance(failure, KeyError):
        return f"there is no {failure}"
    text = str(failure)
    if (at := text.find("ERROR: <input>:")) >= 0:
        text = text[at + len("ERROR: <input>:") :]
    return " ".join(text.split("\n", 1)[0].split())[:300]
