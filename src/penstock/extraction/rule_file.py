"""A rule as a YAML file: the same keys as in the API. Problems are told by file, line and key."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from penstock.extraction import rule_content
from penstock.kernel.errors import Sentence
from penstock.kernel.yaml_text import FILE_BYTES, Problem, Text, read_text

_DEPTH = 80  # a schema's own limit is less


def read_rule_file(path: Path, modes: Collection[str]) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Without a name it is called as its file is."""
    try:
        with path.open("rb") as opened:
            content = opened.read(FILE_BYTES + 1)
    except OSError as failure:
        reason = failure.strerror or "cannot be read"
        return None, [
            Problem(str(path), 1, 1, "", "file.unreadable", f"无法读取文件：{reason}", f"cannot be read: {reason}")
        ]
    return read_rule(content, str(path), modes, name=path.stem)


def read_rule(
    content: bytes, file: str, modes: Collection[str], *, name: str
) -> tuple[dict[str, Any] | None, list[Problem]]:
    text = read_text(content, file, first_key="name", depth=_DEPTH)
    rule = rule_content.completed({"name": name, **text.values}) if isinstance(text.values, dict) else None
    if rule is not None and not text.problems:
        for each in rule_content.problems_of(rule, modes):
            steps = _steps(text, each["path"])
            text.report(steps, "rule.invalid", Sentence(each["message_zh"], each["message"]))
    if rule is None or text.problems:
        return None, sorted(text.problems, key=lambda each: (each.line, each.column))
    return rule, []


def _steps(text: Text, pointer: str) -> tuple[str | int, ...]:
    """As the file has them: elements of lists are counted."""
    steps: tuple[str | int, ...] = ()
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        steps = (*steps, int(name)) if name.isdigit() and (*steps, int(name)) in text.places else (*steps, name)
    return steps
