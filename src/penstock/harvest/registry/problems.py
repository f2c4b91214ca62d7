"""What is wrong with a source file: a sentence for people that says what to do."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.kernel.errors import Sentence


def closest(key: str, known: Iterable[str]) -> str | None:
    """What was probably meant: the same but for case, dashes and underlines, else something like it."""
    names = list(known)
    for name in names:
        if _bare(name) == _bare(key):
            return name
    found = difflib.get_close_matches(key, names, 1, 0.6)
    return found[0] if found else None


def _bare(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def unknown_key(key: str, known: Iterable[str], section: str | None) -> Sentence:
    """`section`: where a key of that name would be right."""
    names = sorted(known)
    if meant := closest(key, names):
        return Sentence(f"没有 {key} 这个键；是否想写 {meant}？", f"there is no key {key} here; did you mean {meant}?")
    if section:
        return Sentence(f"{key} 应写在 {section} 之下", f"{key} belongs under {section}")
    listed = ", ".join(names)
    return Sentence(f"没有 {key} 这个键；可用的键：{listed}", f"there is no key {key} here; the keys are {listed}")


_TYPES = {
    "missing": Sentence("缺少这个必填的键", "this key is missing and must be there"),
    "string_type": Sentence("应为文本；true、false 等请加引号", "must be text; put words such as true in quotes"),
    "int_type": Sentence("应为整数", "must be a whole number"),
    "int_parsing": Sentence("应为整数", "must be a whole number"),
    "int_from_float": Sentence("应为整数", "must be a whole number"),
    "int_parsing_size": Sentence("数字过大", "the number is too large"),
    "float_type": Sentence("应为数字", "must be a number"),
    "float_parsing": Sentence("应为数字", "must be a number"),
    "finite_number": Sentence("应为有限的数字", "must be a finite number"),
    "bool_type": Sentence("应为 true 或 false", "must be true or false"),
    "bool_parsing": Sentence("应为 true 或 false", "must be true or false"),
    "dict_type": Sentence("应为一组“键: 值”", "must be a group of `key: value` lines"),
    "model_type": Sentence("应为一组“键: 值”", "must be a group of `key: value` lines"),
    "model_attributes_type": Sentence("应为一组“键: 值”", "must be a group of `key: value` lines"),
    "tuple_type": Sentence("应为列表", "must be a list"),
    "list_type": Sentence("应为列表", "must be a list"),
    "datetime_type": Sentence("应为 UTC 时间，如 2024-01-31T00:00:00Z", "must be a time such as 2024-01-31T00:00:00Z"),
    "datetime_parsing": Sentence(
        "应为 UTC 时间，如 2024-01-31T00:00:00Z", "must be a time such as 2024-01-31T00:00:00Z"
    ),
    "datetime_from_date_parsing": Sentence(
        "应为 UTC 时间，如 2024-01-31T00:00:00Z", "must be a time such as 2024-01-31T00:00:00Z"
    ),
}
_LIMITS = {
    "greater_than": Sentence("必须大于 {gt}", "must be greater than {gt}"),
    "greater_than_equal": Sentence("不得小于 {ge}", "must be at least {ge}"),
    "less_than": Sentence("必须小于 {lt}", "must be less than {lt}"),
    "less_than_equal": Sentence("不得大于 {le}", "must be at most {le}"),
    "too_short": Sentence("至少要有 {min_length} 项", "must have at least {min_length} of them"),
    "string_too_short": Sentence("不得为空", "must not be empty"),
    "string_too_long": Sentence("至多 {max_length} 个字符", "must have at most {max_length} characters"),
    "literal_error": Sentence("应为以下之一：{expected}", "must be one of {expected}"),
    "enum": Sentence("应为以下之一：{expected}", "must be one of {expected}"),
    "string_pattern_mismatch": Sentence("须符合 {pattern}", "must look like {pattern}"),
}


def wrong_value(kind: str, context: Mapping[str, Any], said: str, given: Any) -> Sentence:
    """The validator's finding in our words."""
    if kind in _TYPES:
        return _TYPES[kind]
    if kind == "value_error" and "longer than any duration" in said:
        return Sentence("时长超过一百年", "is longer than a hundred years")
    if kind == "value_error" and "duration" in said:
        return Sentence(
            "不是时长：请写 PT10M 或 10m、P1D 或 1d", "is no duration: write PT10M or 10m, P1D or 1d"
        )  # fmt: skip
    if kind not in _LIMITS:
        return Sentence(f"值无效：{said}", f"is not valid: {said}")
    sentence = _LIMITS[kind]
    choices = str(context.get("expected", "")).replace("'", "").replace(" or ", ", ").split(", ")
    context = {**context, "expected": ", ".join(choices)}
    zh, en = sentence.zh.format(**context), sentence.en.format(**context)
    if kind in {"literal_error", "enum"} and isinstance(given, str) and (meant := closest(given, choices)):
        return Sentence(f"{zh}；是否想写 {meant}？", f"{en}; did you mean {meant}?")
    return Sentence(zh, en)
