"""What `penstock etl` says at its end: what it wrote, the values with their pages, and what to look at twice."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.etl.carrying import NoJson, Wish, as_text, carry_out
from penstock.cli.etl.outputs import Outputs
from penstock.cli.etl.views import view_for
from penstock.cli.interruptible import run_interruptibly
from penstock.cli.screen import Refusal, printable
from penstock.cli.sentences import sentence_of

_ROWS = 16
_LONG = 80
_WARNINGS = {  # others are for programs, in the JSON
    "unreadable": ("could not be read", "无法读取"),
    "low_confidence": ("hard to recognise", "识别把握较低"),
    "garbled_text_layer": ("the file's own text is garbled; recognised instead", "文件自带文本损坏，已改用识别"),
    "first_frame_only": ("a moving picture; only its first frame was read", "动态图片，仅读取首帧"),
    "hidden_text_left_out": ("hidden text left out", "已略去隐藏文本"),
    "text_cut": ("too much text; not all of it is here", "文本过多，未全部收入"),
    "images_cut": ("too many pictures; not all of them are here", "图片过多，未全部收入"),
    "pictures_missing": ("some pictures could not be taken out", "部分图片未能取出"),
    "annotations_cut": ("too many form fields and notes; they are not here", "表单域与批注过多，未收入"),
}


def check_source(file: Path) -> None:
    shown = printable(str(file))
    try:
        is_there, is_directory = file.exists(), file.is_dir()
    except (OSError, ValueError) as failure:
        raise Refusal(f"{shown} cannot be read: {failure}.", f"无法读取 {shown}：{failure}。") from failure
    if not is_there:
        raise Refusal(f"There is no file {shown}.", f"找不到文件 {shown}。")
    if is_directory:
        raise Refusal(f"{shown} is a directory; name one file.", f"{shown} 是目录；请指定一个文件。")


def run(wish: Wish, *, as_json: bool) -> None:
    try:
        result = run_interruptibly(carry_out(wish, view_for(wish.file.name, quiet=as_json)))
    except NoJson as ended:
        screen.say_failure(sentence_of(ended.failure))
        kept = printable(str(ended.markdown))
        said = screen.text(f"{kept} is written; no JSON was made.", f"已写入 {kept}；未生成 JSON。")
        hint = screen.text("Work on the rule with:", "可这样调试规则：")
        console = screen.console(stderr=True)
        console.print(Text(said), soft_wrap=True)
        read = printable(str(wish.outputs.pages or ended.markdown))
        console.print(Text(f"{hint} penstock rules try {wish.rule} --file {read}", style="dim"), soft_wrap=True)
        raise typer.Exit(1) from None
    if as_json:
        sys.stdout.write(as_text(result))
    else:
        _tell(result, wish.outputs)


def _tell(result: Mapping[str, Any], outputs: Outputs) -> None:
    console = screen.console()
    if result["data"] is not None:
        _tell_values(result, outputs)
    for said in _warned(result["warnings"]):
        console.print(Text.assemble(("! ", "yellow"), said), soft_wrap=True)
    for path, what in _written(result, outputs):
        line = Text.assemble(("✓ ", "green"), printable(str(path)), ("  " + what, "dim"))
        console.print(line, soft_wrap=True)


def _tell_values(result: Mapping[str, Any], outputs: Outputs) -> None:
    rows = list(_values(result["data"]))
    places = result["provenance"]
    columns = [screen.text("Value", "字段"), screen.text("Page", "页"), screen.text("Found", "内容")]
    shown = [[printable(at), _page(places.get(at)), _short(value)] for at, value in rows[:_ROWS]]
    console = screen.console()
    console.print(screen.table(columns, shown))
    if left := len(rows) - _ROWS:
        name = printable(str(outputs.json))
        if left > 0:
            console.print(screen.text(f"… and {left} more in {name}", f"……其余 {left} 项见 {name}"), style="dim")
    console.print()


def _values(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves, by JSON pointer."""
    if isinstance(value, Mapping) and value:
        for name, below in value.items():
            step = str(name).replace("~", "~0").replace("/", "~1")
            yield from _values(below, f"{at}/{step}")
    elif isinstance(value, list) and value:
        for index, below in enumerate(value):
            yield from _values(below, f"{at}/{index}")
    else:
        yield at or "/", value


def _page(places: Any) -> str:
    return str(places[0]["page"]) if places else "–"


def _short(value: Any) -> str:
    said = value if isinstance(value, str) else as_text(value).strip()
    said = printable(" ".join(said.split()))
    return said if len(said) <= _LONG else f"{said[:_LONG]}…"


def _warned(warnings: list[Mapping[str, Any]]) -> Iterator[str]:
    for code, sentence in _WARNINGS.items():
        pages = [each["page"] for each in warnings if code in each["warnings"]]
        if pages:
            many, which = "s" if len(pages) > 1 else "", _stretches(pages)
            yield screen.text(f"page{many} {which}: {sentence[0]}", f"第 {which} 页：{sentence[1]}")


def _stretches(pages: list[int]) -> str:
    """1, 3-7"""
    found: list[list[int]] = []
    for page in pages:
        if found and page == found[-1][-1] + 1:
            found[-1][1:] = [page]
        else:
            found.append([page])
    return ", ".join("-".join(map(str, each)) for each in found)


def _written(result: Mapping[str, Any], outputs: Outputs) -> Iterator[tuple[Path, str]]:
    count, recognised = result["page_count"], result["metadata"].get("pages_recognised", 0)
    pages = screen.text(f"{count} page{'s' if count != 1 else ''}", f"{count} 页")
    if recognised:
        pages += screen.text(f", {recognised} by OCR", f"，其中 {recognised} 页经 OCR")
    yield outputs.markdown, pages
    if images := len(result["images"]):
        yield outputs.images, screen.text(f"{images} picture{'s' if images != 1 else ''}", f"{images} 张图片")
    if outputs.pages is not None:
        yield outputs.pages, screen.text("words and boxes of every page", "各页文字与坐标")
    found = len(list(_values(result["data"]))) if result["data"] is not None else 0
    values = screen.text(
        f"{found} value{'s' if found != 1 else ''}, {result['rule']['name']}", f"{found} 项，{result['rule']['name']}"
    )
    yield (
        outputs.json,
        printable(values) if result["data"] is not None else screen.text("without data", "没有 data"),
    )
