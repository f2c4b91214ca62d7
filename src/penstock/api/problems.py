"""What is wrong with a field, in Chinese; in English the validator's own words do."""

from collections.abc import Mapping
from typing import Any

from penstock.kernel.errors import Language

_ZH = {
    "missing": "必填",
    "json_invalid": "不是有效的 JSON",
    "extra_forbidden": "没有这个字段",
    "too_many_fields": "最多 {most} 个字段",
    "string_type": "应为字符串",
    "string_too_short": "至少 {min_length} 个字符",
    "string_too_long": "最多 {max_length} 个字符",
    "string_pattern_mismatch": "格式不符：应匹配 {pattern}",
    "int_type": "应为整数",
    "int_parsing": "应为整数",
    "int_parsing_size": "整数过大",
    "float_parsing": "应为数字",
    "bool_parsing": "应为 true 或 false",
    "uuid_parsing": "应为 UUID",
    "uuid_type": "应为 UUID",
    "list_type": "应为数组",
    "too_long": "最多 {max_length} 项",
    "too_short": "至少 {min_length} 项",
    "dict_type": "应为对象",
    "model_attributes_type": "应为对象",
    "enum": "应为以下之一：{expected}",
    "literal_error": "应为以下之一：{expected}",
    "greater_than": "应大于 {gt}",
    "greater_than_equal": "应不小于 {ge}",
    "less_than": "应小于 {lt}",
    "less_than_equal": "应不大于 {le}",
}


def reason(problem: Mapping[str, Any], language: Language) -> str:
    """One of the validator's problems, for people."""
    said: str = problem["msg"]
    if language is Language.ZH and problem["type"] in _ZH:
        said = _ZH[problem["type"]].format_map(problem.get("ctx") or {})
    return said
