"""`penstock harvest sources`: what is applied, and which files say something else."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.harvest.files import Read, files_in, open_database, read_files, sources_directory
from penstock.cli.jobs import age
from penstock.cli.options import AsJson, Data
from penstock.cli.screen import printable

if TYPE_CHECKING:
    from penstock.harvest.registry.source import RegisteredSource

_STYLES = {"applied": "green", "differs": "yellow", "not applied": "cyan", "not valid": "red", "no file": "dim"}
_CHINESE = {
    "applied": "已应用", "differs": "与文件不同", "not applied": "未应用", "not valid": "文件有误",
    "no file": "没有文件",
}  # fmt: skip


def register(app: typer.Typer) -> None:
    app.command("sources", epilog="Example: penstock harvest sources")(sources)


def sources(data: Data = None, as_json: AsJson = False) -> None:
    """List the sources: those applied, and files in the sources directory that are not or that differ."""
    read = read_files(files_in(sources_directory()))
    listed = _listed(asyncio.run(_registered(data)), read)
    if as_json:
        screen.print_json(listed)
        return
    console = screen.console()
    if not listed:
        said = screen.text(
            f"No sources. Put source files into {sources_directory()} and run `penstock harvest apply --all`.",
            f"没有数据源。请将数据源文件放入 {sources_directory()}，然后运行 penstock harvest apply --all。",
        )
        console.print(said, style="dim")
        return
    columns = [
        screen.text("Source", "数据源"), screen.text("Endpoints", "端点"), screen.text("Schedule", "计划"),
        screen.text("State", "状态"),
    ]  # fmt: skip
    table = screen.table(columns, [_row(each) for each in listed])
    for column in table.columns[:-1]:
        column.no_wrap = True
    console.print(table)
    if any(each["state"] in {"differs", "not applied"} for each in listed):
        hint = screen.text("`penstock harvest apply --all` applies them.", "可用 penstock harvest apply --all 应用。")
        console.print(f"\n{hint}", style="dim")


async def _registered(data: Path | None) -> "dict[str, RegisteredSource]":
    from penstock.harvest.registry.store import load_all

    async with open_database(data) as database, database.transaction() as tx:
        return {source.provenance_code: source for source in await load_all(tx)}


def _listed(registered: "Mapping[str, RegisteredSource]", read: Read) -> list[dict[str, Any]]:
    found = {document.source: (file, document.canonical()) for file, document in read.documents.items()}
    listed = []
    for code in sorted({*registered, *found}):
        file, document = found.get(code, (None, None))
        source = registered.get(code)
        listed.append(_described(source, document or {}, file))
    wrong = {problem.file for problem in read.problems} - set(read.documents)
    listed += [{"source": None, "file": file, "state": "not valid"} for file in sorted(wrong)]
    return listed


def _described(source: "RegisteredSource | None", document: Mapping[str, Any], file: str | None) -> dict[str, Any]:
    shown = document if source is None else source.document
    state = "no file" if file is None else "not applied"
    if source is not None and file is not None:
        state = "applied" if source.document == document else "differs"
    return {
        "source": shown["source"],
        "name": shown["name"],
        "version": None if source is None else source.version,
        "active": None if source is None else source.is_active,
        "endpoints": list(shown["endpoints"]),
        "schedules": shown["schedules"],
        "applied_at": None if source is None or source.updated_at is None else source.updated_at.isoformat(),
        "applied_by": None if source is None else source.updated_by,
        "file": file,
        "state": state,
    }


def _row(each: dict[str, Any]) -> list[str | Text]:
    if each["source"] is None:
        return ["", "", "", _state(each)]
    schedules = [_schedule(each) for each in each["schedules"]]
    name = Text.assemble(each["source"], "\n", (printable(each["name"]), "dim"))
    return [name, "\n".join(each["endpoints"]), "\n".join(schedules), _state(each)]


def _schedule(said: Mapping[str, Any]) -> str:
    if every := said.get("every"):
        return screen.text(f"{said['operation']} every {shortest(every)}", f"{said['operation']} 每 {shortest(every)}")
    return f"{said['operation']} {said.get('cron')}"


def shortest(duration: str) -> str:
    """As people write it: 6h instead of PT6H."""
    days, _, rest = duration.removeprefix("P").partition("T")
    return (days + rest).lower() if rest == "" or days == "" else duration


def _state(each: Mapping[str, Any]) -> Text:
    """The file is named where there is something to do."""
    said = screen.text(each["state"], _CHINESE[each["state"]])
    state = Text(said, style=_STYLES[each["state"]])
    if each.get("version") is not None:
        applied = "" if each["applied_at"] is None else age(each["applied_at"])
        state.append(
            screen.text(f", version {each['version']}, {applied}", f"，版本 {each['version']}，{applied}"), "dim"
        )
    if each["state"] != "applied" and each["file"]:
        state.append(f"\n{printable(each['file'])}", "dim")
    return state
