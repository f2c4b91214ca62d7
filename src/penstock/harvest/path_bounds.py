"""Which paths into answers may be written: those whose time is linear in the answer.

JSONPath and XPath can say more than that: `a/following-sibling::*` takes 15 s in an answer of 4,000 elements and eight
times that in one of twice the size, `$..*..*..*` goes over values again and again, and neither library can be stopped
at a limit. So a path searches the depth once and at its beginning and only leads downwards, a condition compares with
one value, and an item's path begins at the item. Patterns in JSONPath run in RE2. The branches of an XPath union are
followed one by one (`xpath_branches`): the library's own union compares all results with each other.
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
_DOWNWARDS = frozenset({"child", "attribute", "self"})
_OPERATORS = frozenset({"and", "or", "div", "mod"})
_COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
_NODE_TESTS = frozenset({"text", "node", "comment", "processing-instruction"})
_OF_ONE_VALUE = frozenset(
    {
        "string", "concat", "starts-with", "contains", "substring", "substring-before", "substring-after",
        "string-length", "normalize-space", "translate", "boolean", "not", "true", "false", "lang", "number", "sum",
        "floor", "ceiling", "round", "count", "position", "last", "name", "local-name", "namespace-uri",
    }
)  # fmt: skip
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
_UPWARDS = Sentence(zh="XPath 只能向下：不能用 ..", en="an XPath only leads downwards: no ..")
_COMPARED = Sentence(
    zh="比较（=、!=、<、>）的一侧必须是文本、数字或返回单个值的函数，例如 string(b)",
    en="one side of a comparison (=, !=, <, >) is a text, a number or a function of one value, such as string(b)",
)
_UNION = Sentence(
    zh=f"并集（|）只能连接完整路径，如 a | b 或 (a | b)/c，最多 {_MOST_SELECTORS} 个；条件内请用 or，函数内请分开写",
    en=f"a union (|) joins whole paths, as in a | b or (a | b)/c, {_MOST_SELECTORS} at the most: in a condition write "
    "or, in a function one path",
)
_ID = Sentence(zh="不支持函数 id()", en="the function id() is not allowed")
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


_Token = tuple[str, str]  # its kind and its text
_START: _Token = ("sign", "(")


def xpath_beyond_bounds(text: str, *, of_item: bool) -> Sentence | None:
    """`of_item`: the path is followed from each item, not once from the root."""
    if len(text) > _LONGEST:
        return _TOO_LONG
    found = _tokens(text)
    depth = 0
    for at, (kind, piece) in enumerate(found):
        depth += (piece == "[") - (piece == "]") if kind == "sign" else 0
        if kind == "axis" and piece.rstrip(": \t\r\n") not in _DOWNWARDS:
            return _AXIS
        if kind == "name" and piece == "id" and found[at + 1 : at + 2] == [("sign", "(")]:
            return _ID
        if kind != "sign":
            continue
        if piece in {"/", "//", ".."} and (beyond := _step_beyond(found, at, depth, of_item=of_item)):
            return beyond
        if piece in _COMPARISONS and not (_ends_in_one_value(found, at - 1) or _begins_one_value(found, at + 1)):
            return _COMPARED
    branches = _branches(found)
    return None if branches is not None and len(branches) <= _MOST_SELECTORS else _UNION


def xpath_branches(text: str) -> list[str]:
    """The paths that a union joins; of any other expression itself. `text` is within the bounds."""
    branches = _branches(_tokens(text))
    return [text] if not branches or len(branches) == 1 else [_written(branch) for branch in branches]


def _tokens(text: str) -> list[_Token]:
    return [(each.lastgroup or "", each[0]) for each in _XPATH.finditer(text) if each.lastgroup != "blank"]


def _written(tokens: list[_Token]) -> str:
    """Names that follow each other would become one."""
    return " ".join(piece for _, piece in tokens)


def _step_beyond(found: list[_Token], at: int, depth: int, *, of_item: bool) -> Sentence | None:
    piece = found[at][1]
    before = found[at - 1] if at else _START
    is_first = _begins_path(before)
    if depth > 0 and (piece != "/" or is_first):
        return _IN_CONDITION
    if piece == "..":
        return _UPWARDS
    if piece == "//" and not (is_first or (before[1] == "." and _begins_path(found[at - 2] if at > 1 else None))):
        return _DEPTH_ONCE
    return _ABSOLUTE if of_item and is_first else None


def _begins_path(before: _Token | None) -> bool:
    """Whether a path begins after this piece."""
    if before is None:
        return True
    kind, piece = before
    return (kind == "sign" and piece not in {")", "]", ".", "..", "*", "/", "//"}) or piece in _OPERATORS


def _begins_one_value(found: list[_Token], at: int) -> bool:
    """Whether a text, a number or a call of a function of one value begins here."""
    kind, piece = found[at] if at < len(found) else _START
    if kind in {"text", "number"} or (kind, piece) == ("sign", "-"):
        return True
    return kind == "name" and piece in _OF_ONE_VALUE and found[at + 1 : at + 2] == [("sign", "(")]


def _ends_in_one_value(found: list[_Token], at: int) -> bool:
    kind, piece = found[at] if at >= 0 else _START
    if kind in {"text", "number"}:
        return True
    if (kind, piece) != ("sign", ")"):
        return False
    depth = 0
    while at >= 0:
        depth += _opens(found[at], ")") - _opens(found[at], "(")
        if depth == 0:
            return at > 0 and _begins_one_value(found, at - 1)
        at -= 1
    return False


def _opens(token: _Token, signs: str) -> bool:
    return token[0] == "sign" and token[1] in signs


def _branches(found: list[_Token]) -> list[list[_Token]] | None:
    """The branches of unions at the top or in parentheses that a path begins with; None: a union is elsewhere."""
    if ("sign", "|") not in found:
        return [found]
    pieces: list[list[_Token]] = [[]]
    depth = 0
    for token in found:
        depth += _opens(token, "([") - _opens(token, ")]")
        if depth == 0 and token == ("sign", "|"):
            pieces.append([])
        else:
            pieces[-1].append(token)
    all_of_them: list[list[_Token]] = []
    for piece in pieces:
        if not _is_path(piece):
            return None
        end = _end_of_group(piece)
        inner, rest = _branches(piece[1:end]), piece[end + 1 :]
        if ("sign", "|") not in piece:
            all_of_them.append(piece)
        elif not end or inner is None or ("sign", "|") in rest or (rest and rest[0] != ("sign", "/")):
            return None
        else:
            all_of_them += [[*branch, *rest] for branch in inner]
    return all_of_them


def _end_of_group(piece: list[_Token]) -> int:
    """Finds the end of the parenthesis with which the piece begins; 0 if it begins with none."""
    depth = 0
    for at, token in enumerate(piece):
        depth += _opens(token, "(") - _opens(token, ")")
        if depth == 0:
            return at
    return 0


def _is_path(piece: list[_Token]) -> bool:
    """Whether it is one path, in parentheses at its beginning or not: no operator and no function at its top."""
    depth = 0
    before: _Token | None = None
    for token in piece:
        if depth == 0 and not _may_follow(before, token):
            return False
        depth += _opens(token, "([") - _opens(token, ")]")
        before = token
    return bool(piece) and depth == 0


def _may_follow(before: _Token | None, token: _Token) -> bool:
    kind, text = token
    is_after_step = before is not None and not _opens(before, "/@") and before[0] != "axis" and before[1] != "//"
    if kind == "sign" and text == "(":
        return before is None or (before[0] == "name" and before[1] in _NODE_TESTS)
    if kind == "name" or (kind == "sign" and text in {"*", "@", "."}) or kind == "axis":
        return not is_after_step
    return kind == "sign" and text in {"/", "//", "[", "]", ")"}
