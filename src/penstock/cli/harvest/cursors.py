"""`penstock harvest cursors`: up to where everything is stored, and how it got there."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.harvest.files import open_database
from penstock.cli.harvest.run_screen import moment
from penstock.cli.harvest.status import MaybeSource, plain
from penstock.cli.options import AsJson, Data
from penstock.cli.screen import printable


def register(app: typer.Typer) -> None:
    app.command("cursors", epilog="Example: penstock harvest cursors crossref --events")(cursors)


def cursors(
    source: MaybeSource = None,
    *,
    events: Annotated[bool, typer.Option("--events", help="Each step of them, the newest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many events at the most.")] = 50,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show the cursors: up to where everything is stored without a gap, and what is stored beyond one."""
    found, steps = asyncio.run(_read(data, source, limit if events else 0))
    if as_json:
        told = {"cursors": [plain(each) for each in found]}
        screen.print_json(told | ({"events": [plain(each) for each in steps]} if events else {}))
        return
    console = screen.console()
    if not found:
        console.print(Text(screen.text("There are no cursors yet.", "尚无游标。"), style="dim"))
        return
    console.print(screen.table(_columns(), [_row(each) for each in found]))
    if events:
        columns = [
            screen.text("When", "时间"), screen.text("Source", "数据源"), screen.text("Closed", "完成的时间窗"),
            screen.text("Value after it", "之后的游标值"), screen.text("Task", "任务"),
        ]  # fmt: skip
        console.print()
        console.print(screen.table(columns, [_event(each) for each in steps]))


async def _read(
    data: Path | None, source: str | None, events: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    from penstock.harvest import overview
    from penstock.harvest.registry import store

    async with open_database(data) as database, database.transaction() as tx:
        if source is not None:
            await store.load(tx, source)
        found = await overview.cursors_of(tx, source)
        return found, await overview.cursor_events(tx, source, events) if events else []


def _columns() -> list[str]:
    return [
        screen.text("Source", "数据源"), screen.text("Operation", "操作"), screen.text("Namespace", "命名空间"),
        screen.text("Value", "游标值"), screen.text("Beyond a gap", "间隔之后"),
    ]  # fmt: skip


def _row(each: Mapping[str, Any]) -> list[str | Text]:
    beyond = [f"{moment(start)} – {moment(end)}" for start, end in each["beyond"]]
    more = f" (+{len(beyond) - 3})" if len(beyond) > 3 else ""
    return [
        f"{each['source']}/{each['endpoint']}",
        each["operation"],
        Text(printable(each["namespace"])),
        short(each["value"]),
        Text("\n".join(beyond[:3]) + more, style="yellow"),
    ]


def _event(each: Mapping[str, Any]) -> list[str | Text]:
    closed = f"{short(each['covered_from'])} – {short(each['covered_to'])}" if each["covered_from"] else ""
    moved = Text(screen.text("as before", "未变"), style="dim")
    return [
        each["created_at"].strftime("%m-%d %H:%M:%S"),
        f"{each['source']}/{each['endpoint']} {each['operation']}",
        closed,
        moved if each["prev_value"] == each["new_value"] else short(each["new_value"]),
        str(each["task_id"] or ""),
    ]


def short(value: str | None) -> str:
    """A moment without what is always the same; anything else as it is."""
    from datetime import datetime

    if not value:
        return ""
    try:
        return moment(datetime.fromisoformat(value))
    except ValueError:
        return printable(value)
