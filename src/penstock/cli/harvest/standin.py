"""`penstock harvest standin NAME`: a local server that behaves as a source does, to try a harvest without disturbing
anybody. The servers live in `tests/standins` of the repository; an installed wheel does not carry them.
"""

import asyncio
import importlib
import json
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.text import Text

import penstock
from penstock.cli import screen

_REDRAWS_A_SECOND = 4


class FaultLevel(StrEnum):
    NONE = "none"
    SOME = "some"
    MANY = "many"


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for on the command line."""

    name: str
    port: int
    records: int
    days: float
    seed: int
    faults: FaultLevel
    limits: bool


def register(app: typer.Typer) -> None:
    app.command("standin", epilog="Example: penstock harvest standin crossref --records 5000 --faults some")(standin)


def standin(  # noqa: PLR0913  one parameter for each option
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The source to stand in for, such as crossref; or generic.")
    ],
    *,
    port: Annotated[int, typer.Option(help="0: any free port.", min=0, max=65_535)] = 0,
    records: Annotated[int, typer.Option(help="How many records it has.", min=1, max=1_000_000)] = 20_000,
    days: Annotated[float, typer.Option(help="Over how many days they are spread.", min=0.1)] = 30,
    seed: Annotated[int, typer.Option(help="The same seed, the same records.")] = 0,
    faults: Annotated[FaultLevel, typer.Option(help="How often it answers wrongly.")] = FaultLevel.NONE,
    no_limits: Annotated[bool, typer.Option("--no-limits", help="Do not refuse callers that are too fast.")] = False,
) -> None:
    """Serve a local copy of a source's behaviour, with made-up records, until Ctrl-C.

    `generic` is a plain API for a source file of your own: every pagination, every way to sign in.
    """
    standins = load_standins()
    if name not in (*standins.NAMES, "oai_pmh"):
        listed = ", ".join(standins.NAMES)
        raise screen.Refusal(f"There is no stand-in {name}; there are: {listed}.", f"没有替身 {name}；现有：{listed}。")
    asyncio.run(_serve(standins, Wish(name, port, records, days, seed, faults, not no_limits)))


def load_standins() -> Any:
    """The package `tests.standins` of the checkout that we run in."""
    root = standin_root()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module("tests.standins")


def standin_root() -> Path:
    for root in (Path.cwd(), Path(penstock.__file__).parents[2]):
        if (root / "tests" / "standins" / "__init__.py").is_file():
            return root
    raise screen.Refusal(
        "Stand-ins are not part of the installed package: run this inside a clone of the repository, "
        "where tests/standins is.",
        "替身服务不在安装包中：请在代码仓库（含 tests/standins 目录）内运行。",
    )


async def _serve(standins: Any, wish: Wish) -> None:
    options = {"port": wish.port, "enforce_rate": wish.limits}
    size = {"records": wish.records, "days": wish.days, "seed": wish.seed, "faults": wish.faults.value}
    try:
        async with standins.serve(wish.name, **size, **options) as served:
            _introduce(wish, served.url, standins.overrides(wish.name, served.url))
            await _watch(served.counts)
    except OSError as failure:
        raise screen.Refusal(
            f"Port {wish.port} cannot be used ({failure.strerror}): choose another, or leave --port out.",
            f"端口 {wish.port} 无法使用（{failure.strerror}）：请另选一个，或不指定 --port。",
        ) from failure


def _introduce(wish: Wish, url: str, overrides: dict[str, Any]) -> None:
    to = screen.console()
    screen.print_labelled(to, screen.text("Address", "地址"), url)
    screen.print_labelled(to, screen.text("Point at", "指向"), json.dumps(overrides, ensure_ascii=False))
    screen.print_labelled(to, screen.text("Control", "控制"), f"{url}/__control")
    if wish.name == "generic":
        who, kind = "none|header|query|body|bearer|oauth2|signed", "offset|page0|page1|token|url|time"
        screen.print_labelled(to, screen.text("Paths", "路径"), f"/({who})/({kind})")
        screen.print_labelled(to, screen.text("Key", "密钥"), "standin-key")
    to.print(
        screen.text(
            f"  {wish.records:,} records; a source file with the sections above asks here. Ctrl-C ends.",
            f"  共 {wish.records:,} 条记录；在数据源文件中写入以上配置即可从这里采集。Ctrl-C 结束。",
        ),
        soft_wrap=True,
    )
    sys.stdout.flush()


async def _watch(counts: Any) -> None:
    """One line, drawn anew while requests come; in a pipe nothing is drawn."""
    to = screen.console()
    if not to.is_terminal:
        await asyncio.Event().wait()
    with Live(_line(counts), console=to, auto_refresh=False) as live:
        shown = -1
        while True:
            if counts.total != shown:
                shown = counts.total
                live.update(_line(counts), refresh=True)
            await asyncio.sleep(1 / _REDRAWS_A_SECOND)


def _line(counts: Any) -> Text:
    statuses = "  ".join(f"{status} × {times:,}" for status, times in sorted(counts.by_status.items()))
    said = screen.text(
        f"  {counts.total:,} requests, {counts.most_in_a_second} in a second at the most  {statuses}",
        f"  请求 {counts.total:,} 次，每秒最多 {counts.most_in_a_second} 次  {statuses}",
    )
    return Text(said, no_wrap=True, overflow="ellipsis")
