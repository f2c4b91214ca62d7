"""Failures as one sentence in the terminal's language: what happened, where, and what to do."""

import re
from collections.abc import Mapping
from typing import Any

from psycopg.errors import UndefinedColumn, UndefinedTable

from penstock.cli import screen
from penstock.embedded.failure import EmbeddedFailure
from penstock.kernel.errors import Language, PenstockError
from penstock.kernel.settings import SettingsError

_LISTS = ("problems", "issues", "errors")  # details that are many small facts
_SHOWN = 5


def sentence_of(failure: Exception) -> str:
    language = screen.language()
    if isinstance(failure, EmbeddedFailure):
        return failure.in_language(language)
    if isinstance(failure, screen.Refusal):
        return failure.sentence.in_language(language)
    if isinstance(failure, PenstockError):
        return _of_ours(failure, language)
    if isinstance(failure, SettingsError):
        return str(failure)
    if isinstance(failure, UndefinedTable | UndefinedColumn):
        return screen.text(
            "The database does not have this release's tables: run `penstock migrate`, then start again.",
            "数据库尚无此版本所需的表：请先运行 penstock migrate，再重新启动。",
        )
    unexpected = screen.text(
        "Something unexpected happened; run it again with PENSTOCK_DEBUG=1 to see where",
        "发生意外错误；设置 PENSTOCK_DEBUG=1 后重试可查看详情",
    )
    return f"{unexpected}: {type(failure).__name__}: {failure}"


def _of_ours(failure: PenstockError, language: Language) -> str:
    plain, facts = "", []
    for key, value in failure.details.items():
        if key in _LISTS and isinstance(value, list) and value and isinstance(value[0], Mapping):
            facts += [_shown(_fact(each, language)) for each in value]
        else:
            plain += f" {key}={_shown(str(_in(language, value)))}"
    opens, closes, colon, stop = ("（", "）", "：", "。") if language is Language.ZH else (" (", ")", ": ", ". ")
    said = f"{failure.code.message.in_language(language)}{opens}{failure.code.code}{plain}{closes}"
    if facts := [each for each in facts if each]:
        more = len(facts) - _SHOWN
        left = screen.text(f"; and {more} more", f"；另有 {more} 处") if more > 0 else ""
        said += f"{colon}{screen.text('; ', '；').join(facts[:_SHOWN])}{left}"
    remedy = failure.code.remedy.in_language(language)
    if facts:  # what the remedy would point at is here already
        remedy = screen.text("; ", "；").join(
            part.strip() for part in re.split("[;；]", remedy) if "details." not in part
        )
    return "".join(f"{part[:1].upper()}{part[1:]}{stop}" for part in (said, remedy) if part).rstrip()


def _fact(fact: Mapping[str, Any], language: Language) -> str:
    """A problem of a file by line and key, a value by its path, a fault of a document by its place."""
    if "file" in fact:
        where = f"{fact['file']}:{fact['line']}:{fact['column']} {fact['key']}".rstrip()
        return f"{where}: {fact[f'message_{language}']}"
    if "message" in fact:
        said = fact.get("message_zh", fact["message"]) if language is Language.ZH else fact["message"]
        return f"{fact.get('path') or '/'} {said}"
    return ", ".join(str(fact[key]) for key in ("place", "detail") if fact.get(key))


def _shown(text: str) -> str:
    """A stranger's words may be among it."""
    return screen.printable(" ".join(text.split()))


def _in(language: Language, value: object) -> object:
    """A detail that is there in both languages is shown in one."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return value.get(str(language), value) if isinstance(value, dict) else value
