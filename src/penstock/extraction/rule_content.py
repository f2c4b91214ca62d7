"""What a rule says, and whether it may: the same checks for the API, the command line and files.

`content` is a mapping with the keys of `FIELDS`; whatever was left out has its default. `problems_of` names each
fault by JSON pointer into it.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.extraction import field_map, schemas
from penstock.extraction.ports import Rule
from penstock.kernel import json
from penstock.kernel.errors import Sentence
from penstock.kernel.schemas import fault
from penstock.kernel.step_budget import spending_on, step_budget
from penstock.llm.ports import Example

BUILT_IN_ID = 1
BUILT_IN = Rule(
    rule_id=BUILT_IN_ID,
    version=1,
    name="default",
    postprocess_mode="skip",
    description="Built in: the document as markdown and pages with positions; no model is asked."
    " 内置规则：输出 markdown 与带坐标的页面，不调用模型。",
    is_system=True,
)
MODES = frozenset({"llm", "skip", "rules"})
NEEDS_SCHEMA = frozenset({"llm", "rules"})
STRATEGIES = ("direct-json", "chunked-summarize", "chunked-extract")
NAME_LETTERS = 200
DESCRIPTION_LETTERS = 4_000
PROMPT_LETTERS = 20_000
OPTIONS_BYTES = 64 * 1024
EXAMPLES_MOST = 20
EXAMPLES_BYTES = 64 * 1024  # they go with every question
DEFAULTS: Mapping[str, Any] = {
    "name": "",
    "description": "",
    "json_schema": None,
    "system_prompt": None,
    "postprocess_mode": "llm",
    "postprocess_strategy": None,
    "options": {},
    "examples": [],
}
FIELDS = tuple(DEFAULTS)
Problem = dict[str, str]


def completed(given: Mapping[str, Any]) -> dict[str, Any]:
    """With defaults; names lose their outer blanks. Keys that are no fields are kept, to be named as problems."""
    content = {**DEFAULTS, **given}
    if isinstance(content["name"], str):
        content["name"] = content["name"].strip()
    return content


def problems_of(content: Mapping[str, Any], modes: Collection[str]) -> list[Problem]:
    """Of completed content; `modes` are the post-processors that are installed. Raises TooCostly.

    Runs in the sandbox where the content is a merchant's: `RuleSandbox.check`.
    """
    with step_budget():
        return _problems_of(content, modes)


def _problems_of(content: Mapping[str, Any], modes: Collection[str]) -> list[Problem]:
    unknown = [
        _at(
            key, f"没有这个键；可用的键：{', '.join(FIELDS)}", f"there is no such key; the keys are {', '.join(FIELDS)}"
        )
        for key in content
        if key not in FIELDS
    ]
    wrong = unknown + [
        _at(name, "含有无法存储的字符或数字", "has a character or a number that cannot be stored")
        for name in FIELDS
        if not _storable(content[name])
    ]
    if wrong:
        return wrong
    with spending_on("/json_schema"):
        of_schema = _of_schema(content)
    with spending_on("/options"):
        of_options = _of_options(content)
    return [
        *_of_texts(content),
        *_of_processing(content, modes),
        *of_schema,
        *of_options,
        *_of_examples(content, is_checkable=not of_schema),
    ]


def _at(name: str, zh: str, en: str, below: str = "") -> Problem:
    return fault(schemas.pointer([name]) + below, Sentence(zh, en))


def _below(name: str, problem: Problem, at: str = "") -> Problem:
    return problem | {"path": schemas.pointer([name]) + at + problem["path"]}


def _storable(value: Any) -> bool:
    """Not so: U+0000, which PostgreSQL has no place for, halves of a surrogate pair, numbers that are none or have no
    end, and what is nested without end."""
    level = [value]
    for _ in range(200):
        if not level:
            return True
        texts = [each for each in level if isinstance(each, str)]
        texts += [key for each in level if isinstance(each, Mapping) for key in each]
        if any(not isinstance(text, str) or "\x00" in text or _is_broken(text) for text in texts):
            return False
        if any(isinstance(each, float) and not math.isfinite(each) for each in level):
            return False
        level = [
            below
            for each in level
            if isinstance(each, Mapping | list)
            for below in (each.values() if isinstance(each, Mapping) else each)
        ]
    return False


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _of_texts(content: Mapping[str, Any]) -> list[Problem]:
    found = []
    name = content["name"]
    if not isinstance(name, str) or not 1 <= len(name) <= NAME_LETTERS or not name.isprintable():
        said = f"must be 1 to {NAME_LETTERS} printable characters in one line"
        found.append(_at("name", f"必须是一行 1 到 {NAME_LETTERS} 个可打印字符", said))
    if not isinstance(content["description"], str) or len(content["description"]) > DESCRIPTION_LETTERS:
        found.append(_too_long("description", DESCRIPTION_LETTERS))
    prompt = content["system_prompt"]
    if prompt is not None and (not isinstance(prompt, str) or len(prompt) > PROMPT_LETTERS):
        found.append(_too_long("system_prompt", PROMPT_LETTERS))
    return found


def _too_long(name: str, most: int) -> Problem:
    return _at(name, f"必须是不超过 {most:,} 个字符的文本", f"must be text of at most {most:,} characters")


def _of_processing(content: Mapping[str, Any], modes: Collection[str]) -> list[Problem]:
    found = []
    if content["postprocess_mode"] not in modes:
        known = ", ".join(sorted(modes))
        found.append(_at("postprocess_mode", f"必须是 {known} 之一", f"must be one of {known}"))
    strategy = content["postprocess_strategy"]
    if strategy is not None and strategy not in STRATEGIES:
        known = ", ".join(STRATEGIES)
        said = f"must be one of {known}, or left out"
        found.append(_at("postprocess_strategy", f"必须是 {known} 之一，或省略", said))
    return found


def _of_schema(content: Mapping[str, Any]) -> list[Problem]:
    schema = content["json_schema"]
    if schema is None:
        mode = content["postprocess_mode"]
        said = f"must be given when postprocess_mode is {mode}"
        return [_at("json_schema", f"postprocess_mode 为 {mode} 时必填", said)] if mode in NEEDS_SCHEMA else []
    return [_below("json_schema", each) for each in schemas.problems_of(schema)]


def _of_options(content: Mapping[str, Any]) -> list[Problem]:
    options = content["options"]
    if not isinstance(options, Mapping):
        return [_at("options", "必须是对象", "must be an object")]
    if len(json.dump_bytes(options)) > OPTIONS_BYTES:
        most = f"{OPTIONS_BYTES:,}"
        return [_at("options", f"JSON 不得超过 {most} 字节", f"must be at most {most} bytes of JSON")]
    if content["postprocess_mode"] != "rules":
        return []
    return [_below("options", each) for each in field_map.problems_of(options)]


def _of_examples(content: Mapping[str, Any], *, is_checkable: bool) -> list[Problem]:
    examples = content["examples"]
    if not isinstance(examples, list) or len(examples) > EXAMPLES_MOST:
        return [_at("examples", f"必须是至多 {EXAMPLES_MOST} 项的列表", f"must be a list of at most {EXAMPLES_MOST}")]
    if len(json.dump_bytes(examples)) > EXAMPLES_BYTES:
        most = f"{EXAMPLES_BYTES:,}"
        return [_at("examples", f"JSON 合计不得超过 {most} 字节", f"must be at most {most} bytes of JSON together")]
    if examples and not isinstance(content["json_schema"], Mapping):
        return [_at("examples", "需要 json_schema，且 result 须与之相符", "need a json_schema that their results fit")]
    return [
        problem
        for number, each in enumerate(examples)
        for problem in _of_example(each, f"/{number}", content["json_schema"] if is_checkable else None)
    ]


def _of_example(example: Any, at: str, schema: Mapping[str, Any] | None) -> list[Problem]:
    if not isinstance(example, Mapping) or set(example) != {"text", "result"}:
        return [_at("examples", "必须且只能有 text 与 result", "must have text and result, and nothing else", at)]
    text = example["text"]
    if not isinstance(text, str) or not text.strip():
        return [_at("examples", "必须是非空文本", "must be text, and not empty", f"{at}/text")]
    if schema is None:
        return []
    with spending_on(f"/examples{at}/result"):
        errors = schemas.errors_of(schema, example["result"])
    return [_below("examples", each, f"{at}/result") for each in errors]


def rule_of(content: Mapping[str, Any], rule_id: int, version: int) -> Rule:
    """Of a version too that was kept before there were all the fields of today."""
    said = {name: content.get(name, usual) for name, usual in DEFAULTS.items()}
    return Rule(rule_id=rule_id, version=version, **said)


def content_of(rule: Rule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in FIELDS}


def snapshot(rule: Rule) -> dict[str, Any]:
    """The exact rule, as a task keeps it. Its examples may be long and never change: they stay with the version."""
    kept = {**content_of(rule), "examples": []}
    return {
        "rule_id": rule.rule_id, "version": rule.version, "is_system": rule.is_system,
        "example_count": len(rule.examples), **kept,
    }  # fmt: skip


def has_examples_elsewhere(kept: Mapping[str, Any]) -> bool:
    return bool(kept.get("example_count"))


def restored(kept: Mapping[str, Any], examples: Sequence[Example] = ()) -> Rule:
    rule = rule_of(kept, kept["rule_id"], kept["version"])
    return replace(rule, is_system=kept["is_system"], examples=list(examples))
