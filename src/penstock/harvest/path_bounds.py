"""Which paths into answers may be written: those whose time is linear in the answer.

JSONPath and XPath can say more than that: `a/following-sibling::*` takes 15 s in an answer of 4,000 elements and eight
times that in one of twice the size, `$..*..*..*` goes over values again and again, and neither library can be stopped
at a limit. So a path searches the depth once and at its beginning, a condition looks downwards, and an item's path
begins at the item. Patterns in JSONPath run in RE2. Still more than linear, and allowed: an XPath union, which compares
its results with each other.
"""

import re
from math import prod
from typing import Any

from jsonpath import JSONPathEnvironment
from jsonpath.function_extensions import ExpressionType, FilterFunction

from penstock.harvest.patterns import Pattern, PatternUnfit, compile_pattern
from penstock.kernel.errors import Sentence

_LONGEST = 500
_LONGEST_SEARCHED = 65_536
_MOST_SELECTORS = 8  # ways from a value to the same value below, all segments together
_XPATH = re.compile(
    r"(?P<blank>\s+)|(?P<text>\"[^\"]*\"|'[^']*')|(?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
    r"|(?P<axis>[\w.\-]+\s*::)|(?P<name>[^\W\d][\w.\-]*(?::[^\W\d][\w.\-]*|:\*)?)|(?P<sign>//|\.\.|!=|<=|>=|.)",
    re.DOTALL,
)
_DOWNWARDS = frozenset({"child", "attribute", "self", "namespace"})
_OPERATORS = frozenset({"and", "or", "div", "mod"})
_TOO_LONG = Sentence(zh=f"路径最多 {_LONGEST} 个字符", en=f"a path has at most {_LONGEST} characters")
_DEPTH_ONCE = Sentence(
    zh="路径只能在开头搜索一次所有层级（..、//），请写出中间的名称",
    en="a path searches the depth (.. in JSONPath, // in XPath) once at the most: write the names between",
)
_IN_CONDITION = Sentence(
    zh="条件（[ ]）内只能向下查看：不能用 //、..、$、嵌套条件或绝对路径",
    en="a condition only looks downwards: no //, no .., no $, no other condition and no absolute path in it",
)
_AXIS = Sentence(
    zh="不支持 ancestor、following、preceding 等轴", en="axes such as ancestor, following and preceding are not allowed"
)
_SELECTORS = Sentence(
    zh=f"方括号内的选择器过多（合计最多 {_MOST_SELECTORS}）", en=f"brackets select more than {_MOST_SELECTORS} ways"
)
_ABSOLUTE = Sentence(
    zh="该路径从条目开始，不能以 / 开头", en="this path begins at the item: it must not begin with /"
)  # fmt: skip


class _Search(FilterFunction):
    """`search(text, pattern)` of RFC 9535; false where either is none."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012  as the base class has it
    return_type = ExpressionType.LOGICAL

    def __call__(self, text: object, pattern: object) -> bool:
        if not isinstance(text, str) or not isinstance(pattern, str) or len(text) > _LONGEST_SEARCHED:
            return False
        try:
            return self._holds(compile_pattern(pattern), text)
        except PatternUnfit:
            return False

    def _holds(self, pattern: Pattern, text: str) -> bool:
        return pattern.occurs_in(text)


class _Match(_Search):
    """`match(text, pattern)`: the whole text."""

    def _holds(self, pattern: Pattern, text: str) -> bool:
        return pattern.fits(text)


def _environment() -> JSONPathEnvironment:
    made = JSONPathEnvironment(strict=True)
    made.function_extensions["search"] = _Search()
    made.function_extensions["match"] = _Match()
    return made


JSON_PATHS = _environment()


def jsonpath_beyond_bounds(text: str, segments: tuple[Any, ...]) -> Sentence | None:
    """`segments` are those of the compiled path."""
    if len(text) > _LONGEST:
        return _TOO_LONG
    bare = re.sub(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", "''", text)
    condition = bare.partition("?")[2]
    if bare.count("..") > 1:
        return _DEPTH_ONCE
    if re.search(r"\.\.|[?$]", condition):
        return _IN_CONDITION
    if prod(len(segment.selectors) for segment in segments) > _MOST_SELECTORS:
        return _SELECTORS
    return None


def xpath_beyond_bounds(text: str, *, of_item: bool) -> Sentence | None:
    """`of_item`: the path is followed from each item, not once from the root."""
    if len(text) > _LONGEST:
        return _TOO_LONG
    found = [(each.lastgroup or "", each[0]) for each in _XPATH.finditer(text) if each.lastgroup != "blank"]
    depth = 0
    for at, (kind, piece) in enumerate(found):
        before = found[at - 1] if at else ("sign", "(")
        depth += (piece == "[") - (piece == "]") if kind == "sign" else 0
        if kind == "axis" and piece.rstrip(": \t\r\n") not in _DOWNWARDS:
            return _AXIS
        if kind != "sign" or piece not in {"/", "//", ".."}:
            continue
        is_first = _begins_path(before)
        if depth > 0 and (piece != "/" or is_first):
            return _IN_CONDITION
        if piece == "//" and not (is_first or (before[1] == "." and _begins_path(found[at - 2] if at > 1 else None))):
            return _DEPTH_ONCE
        if of_item and piece != ".." and is_first:
            return _ABSOLUTE
    return None


def _begins_path(before: tuple[str, str] | None) -> bool:
    """Whether a path begins after this piece."""
    if before is None:
        return True
    kind, piece = before
    return (kind == "sign" and piece not in {")", "]", ".", "..", "*", "/", "//"}) or piece in _OPERATORS
