"""Regular expressions of source files, matched by RE2.

Sources' answers are strangers' text, and Python's own engine may take time exponential in what it looks at. RE2's time
is linear in the text, and its memory has a limit. It knows neither look-around nor back references; `\\w`, `\\d` and
`\\b` are about ASCII, `$` is the very end. The engine of JSON schemas (Rust) cannot say what a group matched, which
`idPattern` needs.
"""

from functools import lru_cache
from typing import Any

import re2

from penstock.kernel.errors import Sentence

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # to standard error
_OPTIONS.max_mem = 1024 * 1024  # bytes; a pattern that needs more takes long to compile
_LONGEST = 1_000
_NOT_LINEAR = ("(?=", "(?!", "(?<", "(?>", "invalid escape sequence: \\")


class PatternUnfit(Exception):
    """What is wrong with a pattern, for people."""

    def __init__(self, said: Sentence) -> None:
        super().__init__(said.en)
        self.said = said


class Pattern:
    """A compiled pattern; take it from `compile_pattern`."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self.groups: int = compiled.groups

    def occurs_in(self, text: str) -> bool:
        return self._compiled.search(_encodable(text)) is not None

    def fits(self, text: str) -> bool:
        """The whole text."""
        return self._compiled.fullmatch(_encodable(text)) is not None

    def first_group(self, text: str) -> str | None:
        """What the first group matched, or the whole pattern when it has none; None where nothing matches."""
        match = self._compiled.search(_encodable(text))
        return None if match is None else match[1 if self.groups else 0]


def _encodable(text: str) -> str:
    """RE2 works on UTF-8; half of a surrogate pair has none, and becomes a question mark."""
    return text if text.isascii() else text.encode(errors="replace").decode()


@lru_cache(maxsize=512)
def compile_pattern(text: str) -> Pattern:
    """PatternUnfit for what RE2 does not take."""
    if len(text) > _LONGEST:
        raise PatternUnfit(
            Sentence(
                zh=f"正则表达式最多 {_LONGEST} 个字符", en=f"a regular expression has at most {_LONGEST} characters"
            )
        )
    try:
        return Pattern(re2.compile(text, _OPTIONS))
    except (re2.error, UnicodeEncodeError) as error:
        raise PatternUnfit(_why(error)) from None


def _why(error: Exception) -> Sentence:
    said = error.args[0] if error.args else ""
    reason = said.decode(errors="replace") if isinstance(said, bytes) else "it is not UTF-8"
    if any(mark in reason for mark in _NOT_LINEAR):
        return Sentence(
            zh=f"正则表达式不支持环视（lookaround）、反向引用和未知转义，请改写：{reason}",
            en=f"look-around, back references and unknown escapes are not supported, write it without: {reason}",
        )
    return Sentence(zh=f"正则表达式无效：{reason}", en=f"not a regular expression: {reason}")
