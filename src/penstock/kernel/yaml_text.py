"""A YAML file as plain values, each with its place: strict where YAML is lenient, bounded where it is not.

Refused: more than 1 MB, other encodings than UTF-8, keys that occur twice, merge keys, tags, values nested or
multiplied by aliases without end, and characters that no table can hold. Only true, false, null and plain numbers are
more than text, so that `no`, `1:30` and dates stay what was written.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import yaml

from penstock.kernel.errors import Language, Sentence

FILE_BYTES = 1_000_000
_VALUES = 20_000  # aliases counted each time they are used
_DEPTH = 20
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_NUMBER = re.compile(r"-?[0-9][0-9.e+-]*")
_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}
_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq",
              "merge", "value"))  # fmt: skip
_Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. Lines and columns count from 1; the key is dotted."""

    file: str
    line: int
    column: int
    key: str
    rule: str
    message_zh: str
    message_en: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def in_language(self, language: Language) -> str:
        where = f"{self.file}:{self.line}:{self.column}" + (f" {self.key}" if self.key else "")
        said = self.message_zh if language is Language.ZH else self.message_en
        return f"{where}: {said} ({self.rule})"


@dataclass(slots=True)
class Text:
    """What a file says. `places`: where each key and element stands; `problems`: what cannot be read."""

    file: str
    values: Any = None
    places: dict[_Path, tuple[int, int]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    depth: int = _DEPTH

    def place(self, path: _Path) -> tuple[_Path, tuple[int, int]]:
        """Of the key itself, or of the nearest one around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.places:
                return path[:length], self.places[path[:length]]
        return (), (1, 1)

    def report(self, path: _Path, rule: str, sentence: Sentence) -> None:
        line, column = self.place(path)[1]
        self.problems.append(Problem(self.file, line, column, dotted(path), rule, sentence.zh, sentence.en))


def dotted(path: _Path) -> str:
    return ".".join(str(step) for step in path)


def read_text(content: bytes, file: str, *, first_key: str, depth: int = _DEPTH) -> Text:
    """`first_key`: what such a file begins with, for the sentence about one that is something else."""
    text = Text(file, depth=depth)
    said = _decoded(content, text)
    if said is None:
        return text
    try:
        root = yaml.compose(said, Loader=_bounded(depth))
    except yaml.YAMLError as wrong:
        _report_syntax(text, wrong)
        return text
    if not isinstance(root, yaml.MappingNode):
        text.report((), "yaml.mapping", Sentence(
            f"文件顶层应为“键: 值”，以 {first_key}: 开头",
            f"the file must be `key: value` lines, beginning with {first_key}:",
        ))  # fmt: skip
        return text
    text.values = _Walk(text).value(root, ())
    return text


def _decoded(content: bytes, text: Text) -> str | None:
    if len(content) > FILE_BYTES:
        text.report((), "file.size", Sentence(
            f"文件超过 {FILE_BYTES:,} 字节", f"the file is larger than {FILE_BYTES:,} bytes"
        ))  # fmt: skip
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        line = content.count(b"\n", 0, wrong.start) + 1
        column = wrong.start - content.rfind(b"\n", 0, wrong.start)
        said = Sentence("文件不是 UTF-8 编码", "the file is not UTF-8: save it as UTF-8")
        text.problems.append(Problem(text.file, line, column, "", "file.encoding", said.zh, said.en))
        return None


_TOO_MUCH = Sentence(
    "值过多或嵌套过深，超出此类文件的范围", "more values, or more deeply nested ones, than such a file can have"
)  # fmt: skip
_TAB = Sentence("缩进使用了制表符：请改用空格", "there is a tab: indent with spaces")


def _report_syntax(text: Text, wrong: yaml.YAMLError) -> None:
    mark = getattr(wrong, "problem_mark", None) or getattr(wrong, "context_mark", None)
    said = str(getattr(wrong, "problem", None) or getattr(wrong, "reason", None) or wrong)
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    rule, sentence = "yaml.syntax", Sentence(f"不是有效的 YAML：{said}", f"this is not YAML: {said}")
    if isinstance(wrong, _TooMuch):
        rule, sentence = "yaml.size", _TOO_MUCH
    elif "'\\t'" in said:
        rule, sentence = "yaml.tab", _TAB
    text.problems.append(Problem(text.file, line, column, "", rule, sentence.zh, sentence.en))


class _TooMuch(yaml.MarkedYAMLError):
    pass


class _Bounded(yaml.SafeLoader):
    """Stops early: the rest of a file with too much in it would be read for nothing."""

    count = depth = 0
    limit = _DEPTH

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.count += 1
        self.depth += 1
        if self.count > 2 * _VALUES or self.depth > 2 * self.limit:  # keys are nodes too
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise _TooMuch(problem=_TOO_MUCH.en, problem_mark=mark)
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _bounded(limit: int) -> type[_Bounded]:
    return type("_BoundedTo", (_Bounded,), {"limit": limit})


class _Refused(Exception):
    """The rest of the file is not looked at."""


class _Walk:
    """From nodes to values; what is wrong goes to the text's problems."""

    def __init__(self, text: Text) -> None:
        self._text = text
        self._count = 0

    def value(self, node: yaml.Node, path: _Path) -> Any:
        try:
            return self._value(node, path)
        except _Refused:
            return None

    def _value(self, node: yaml.Node, path: _Path) -> Any:
        self._bound(path)
        if node.tag not in _TAGS:
            self._text.report(path, "yaml.tag", Sentence(
                f"不支持标签 {node.tag}", f"the tag {node.tag} is not supported"
            ))  # fmt: skip
            return None
        if isinstance(node, yaml.MappingNode):
            return {key: self._value(child, (*path, key)) for key, child in self._keys(node, path)}
        if isinstance(node, yaml.SequenceNode):
            for index, child in enumerate(node.value):
                self._text.places.setdefault((*path, index), _place(child))
            return [self._value(child, (*path, index)) for index, child in enumerate(node.value)]
        return self._scalar(str(node.value), path, quoted=bool(getattr(node, "style", None)))

    def _bound(self, path: _Path) -> None:
        self._count += 1
        if len(path) > self._text.depth:
            self._text.report(path[:3], "yaml.depth", Sentence(
                f"嵌套超过 {self._text.depth} 层", f"values are nested more than {self._text.depth} deep"
            ))  # fmt: skip
            raise _Refused
        if self._count > _VALUES:
            self._text.report(path[:3], "yaml.size", Sentence(
                f"展开别名后超过 {_VALUES:,} 个值", f"there are more than {_VALUES:,} values, aliases counted"
            ))  # fmt: skip
            raise _Refused

    def _keys(self, node: yaml.MappingNode, path: _Path) -> Iterator[tuple[str, yaml.Node]]:
        seen: dict[str, int] = {}
        for key_node, child in node.value:
            line, column = _place(key_node)
            key = str(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "?"
            here = (*path, key)
            if key in seen:
                self._report_at((line, column), here, "yaml.duplicate", Sentence(
                    f"{key} 重复：第 {seen[key]} 行已有", f"{key} is here twice; the first is in line {seen[key]}"
                ))  # fmt: skip
                continue
            seen[key] = line
            self._text.places.setdefault(here, (line, column))
            if not isinstance(key_node, yaml.ScalarNode) or not key.isprintable():
                self._text.report(here, "yaml.key", Sentence("键必须是普通文本", "a key must be plain text"))
            elif key == "<<":
                self._text.report(here, "yaml.merge", Sentence(
                    "不支持合并键 <<", "merge keys (<<) are not supported"
                ))  # fmt: skip
            else:
                yield key, child

    def _report_at(self, place: tuple[int, int], path: _Path, rule: str, said: Sentence) -> None:
        self._text.problems.append(Problem(self._text.file, *place, dotted(path), rule, said.zh, said.en))

    def _scalar(self, said: str, path: _Path, *, quoted: bool) -> Any:
        if "\x00" in said or any("\ud800" <= letter <= "\udfff" for letter in said):
            self._text.report(path, "yaml.character", Sentence(
                "含有无法存储的字符", "there is a character that cannot be stored"
            ))  # fmt: skip
            return None
        return said if quoted else _plain(said)


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _plain(said: str) -> Any:
    """A number only where writing it back gives the same text: `007` and `1.10` may be meant as text."""
    if said.lower() in _WORDS:
        return _WORDS[said.lower()]
    if _WHOLE.fullmatch(said):
        return int(said)
    try:
        return float(said) if _NUMBER.fullmatch(said) and repr(float(said)) == said else said
    except ValueError:
        return said
