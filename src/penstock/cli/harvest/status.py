"""`penstock harvest status`: how far each source is, what waits, what rests, what went wrong."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.harvest.files import open_database
from penstock.cli.harvest.run_screen import code_of, lasting, moment, reason, what_happened
from penstock.cli.options import AsJson, Data
from penstock.cli.screen import printable

MaybeSource = Annotated[str | None, typer.Argument(metavar="SOURCE", help="This one; else all.", show_default=False)]


def register(app: typer.Typer) -> None:
    app.command("status", epilog="Example: penstock harvest status crossref")(status)


def status(source: MaybeSource = None, data: Data = None, as_json: AsJson = False) -> None:
    """Show how far each source is: watermark, tasks, items of today, rests and the last errors."""
    rows = asyncio.run(_read(data, source))
    if as_json:
        screen.print_json([plain(row) for row in rows])
        return
    console = screen.console()
    if not rows:
        said = screen.text(
            "Nothing was harvested yet. `penstock harvest run SOURCE` begins.",
            "尚未采集。可用 penstock harvest run SOURCE 开始。",
        )
        console.print(Text(said, style="dim"))
        return
    columns = [
        screen.text("Source", "数据源"), screen.text("Watermark", "水位"), screen.text("Behind", "落后"),
        screen.text("Tasks", "任务"), screen.text("Today", "今日"),
        screen.text("Last", "最近"),
    ]  # fmt: skip
    now = datetime.now(UTC)
    table = screen.table(columns, [_row(row, now) for row in rows])
    for column in table.columns[:3]:
        column.no_wrap = True
    console.print(table)
    for state, names in _rests(rows, now).items():
        console.print(Text(f"‖ {state}: {', '.join(names)}", style="yellow"), soft_wrap=True)
    for row in rows:
        for error in row["errors"] or ():
            console.print(Text.assemble(("✗ ", "red"), error_line(row, error)), soft_wrap=True)


async def _read(data: Path | None, source: str | None) -> list[dict[str, Any]]:
    from penstock.harvest import overview
    from penstock.harvest.registry import store

    async with open_database(data) as database, database.transaction() as tx:
        if source is not None:
            await store.load(tx, source)  # one that is not known is said
        return await overview.status_of(tx, source)


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Fit for JSON."""
    return {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _row(row: Mapping[str, Any], now: datetime) -> list[str | Text]:
    watermark = row["watermark"]
    return [
        f"{row['source']}/{row['endpoint']}\n{row['operation']}",
        "" if watermark is None else moment(watermark),
        "" if watermark is None else lasting((now - watermark).total_seconds()),
        _tasks(row),
        f"{row['today']:,}",
        "" if row["last_at"] is None else lasting((now - row["last_at"]).total_seconds()),
    ]


def _tasks(row: Mapping[str, Any]) -> Text:
    parts = [
        (row["queued"], "queued", "排队", ""),
        (row["running"], "running", "运行", "green"),
        (row["failed"], "failed", "失败", "red"),
    ]
    told = [(screen.text(f"{count:,} {en}", f"{zh} {count:,}"), style) for count, en, zh, style in parts if count]
    return Text(", ").join(Text(said, style=style) for said, style in told) if told else Text("–", style="dim")


def _rests(rows: Sequence[Mapping[str, Any]], now: datetime) -> dict[str, list[str]]:
    """What does not go on just now, by the reason."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row["resting_until"] is not None:
            found.setdefault(_rest(row, now), []).append(f"{row['source']}/{row['endpoint']} {row['operation']}")
    return found


def _rest(row: Mapping[str, Any], now: datetime) -> str:
    until, why = row["resting_until"], printable(reason(row["resting_reason"]))
    if until - now > timedelta(days=365):
        return screen.text(f"held, {why}", f"已暂停，{why}")
    return screen.text(f"resting until {moment(until)}, {why}", f"暂停至 {moment(until)}，{why}")


def error_line(row: Mapping[str, Any], error: Mapping[str, Any]) -> str:
    """What went wrong and what to do."""
    code, language = code_of(str(error["code"])), screen.language()
    said = what_happened(str(error["code"]), str(error["message"] or ""))
    remedy = f" {code.remedy.in_language(language)}." if code else ""
    where = f"{row['source']}/{row['endpoint']} {row['operation']}"
    window = f" {str(error['from'])[:16].replace('T', ' ')}" if error["from"] else ""
    again = screen.text("The next run takes it up again.", "下次运行会重新采集。")
    return f"{where}{window}: {said}.{remedy} {again}"
