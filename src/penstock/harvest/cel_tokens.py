"""Tokens of a CEL expression, in one pass, and what may be said with them.

The engine tells neither its tokens nor its tree, so a template is judged by this reader. It takes a part of CEL's
grammar that leaves nothing to doubt: no comments, no triple quotes, no bytes, ASCII outside of strings, nothing glued
to a string. Invariant: what the engine takes for code is code here as well, so that a loop (CEL's macros over lists)
cannot hide in what only looks like a text. Names before a bracket are held against a list of what may be called,
never against a list of what may not.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

_TOKENS = re.compile(
    r"(?P<blank>[ \t\r\n]+)"
    r"|(?P<text>[rR](?:\"[^\"\r\n]*\"|'[^'\r\n]*')"
    r"|\"(?:\\[abfnrtvxuU0-3\\?\"'`]|[^\"\\\r\n])*\"|'(?:\\[abfnrtvxuU0-3\\?\"'`]|[^'\\\r\n])*')"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<number>(?:0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)[uU]?)"
    r"|(?P<sign>==|!=|<=|>=|&&|\|\||/(?!/)|[\[\]{}(),.+\-*%!?:<>])"
)
_WORDS = frozenset({"true", "false", "null", "in"})
_LOOPS = frozenset({"map", "filter", "all", "exists", "exists_one", "existsOne"})
_GLUED = frozenset({"text", "name", "number"})


class Unfit(Exception):
    """What is wrong with an expression, in words."""


@dataclass(frozen=True, slots=True)
class Token:
    kind: str  # text, name, number, sign
    text: str


def read(text: str, at: int) -> tuple[list[Token], int]:
    """The tokens from `at` up to the brace that closes the expression, and where that brace is."""
    begin, depth, kind_before = at, 0, ""
    tokens: list[Token] = []
    while at < len(text):
        found = _TOKENS.match(text, at)
        kind = found.lastgroup if found else None
        if found is None or kind is None:
            raise Unfit(_why_not(text, begin, at))
        if kind in _GLUED and kind_before in _GLUED:
            raise Unfit(f"a blank is missing before {found[0][:20]}; bytes and triple quotes are not allowed")
        if kind == "sign":
            if found[0] == "}" and depth == 0:
                return tokens, at
            depth += {"{": 1, "}": -1}.get(found[0], 0)
        if kind != "blank":
            tokens.append(Token(kind, found[0]))
        kind_before, at = kind, found.end()
    raise Unfit(f"${{{text[begin : begin + 40]}… has no closing brace")


def _why_not(text: str, begin: int, at: int) -> str:
    if text.startswith("//", at):
        return "comments are not allowed in expressions"
    if text[at] in "\"'":
        return f"${{{text[begin : begin + 40]}… has a text with no end, and so no closing brace"
    return f"the character {text[at]!r} is not allowed in expressions, except in a text"


class Expression:
    """An expression by its tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._signs = [token.text if token.kind != "text" else "" for token in tokens]

    def check(self, functions: Sequence[str], own: Container[str], variables: Mapping[str, object]) -> None:
        """Raises Unfit for a call or a name that is not known. `own`: functions of CEL, which need not be told."""
        for name in self.calls():
            if name in _LOOPS:
                raise Unfit(f"{name}() is not allowed: expressions do not loop")
            if name not in functions and name not in own:
                raise Unfit(f"the function {name} is not allowed; allowed are {', '.join(functions) or 'none'}")
        for name in self.names():
            if name not in variables:
                raise Unfit(f"unknown name {name}; known are {', '.join(variables)}")

    def calls(self) -> list[str]:
        return [token.text for at, token in self._named() if self._sign(at + 1) == "("]

    def names(self) -> list[str]:
        """Of variables, as often as each is read."""
        return [token.text for at, token in self._named() if self._sign(at + 1) != "(" and self._sign(at - 1) != "."]

    def members(self) -> Iterator[tuple[str, str, bool]]:
        """(variable, member, whether it stands alone in `has(…)`)."""
        for at, token in self._named():
            is_member = self._sign(at + 1) == "." and self._sign(at - 1) != "." and self._sign(at + 3) != "("
            if is_member and at + 2 < len(self._tokens) and self._tokens[at + 2].kind == "name":
                is_asked = (self._sign(at - 2), self._sign(at - 1), self._sign(at + 3)) == ("has", "(", ")")
                yield token.text, self._tokens[at + 2].text, is_asked

    def is_call_of(self, name: str) -> bool:
        """One call of this function and nothing around it."""
        if self._signs[:2] != [name, "("]:
            return False
        depth = 0
        for at, sign in enumerate(self._signs):
            depth += {"(": 1, ")": -1}.get(sign, 0)
            if depth == 0 and at > 0:
                return at == len(self._signs) - 1
        return False

    def _named(self) -> Iterator[tuple[int, Token]]:
        return (
            (at, token)
            for at, token in enumerate(self._tokens)
            if token.kind == "name" and token.text not in _WORDS
        )  # fmt: skip

    def _sign(self, at: int) -> str:
        return self._signs[at] if 0 <= at < len(self._signs) else ""
