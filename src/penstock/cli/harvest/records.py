"""`penstock harvest records`: what was harvested, filtered; one record whole with --id."""

import asyncio
import sys
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.harvest.reaching import Asked, Filter, OfEndpoint, SourceCode, reach
from penstock.cli.options import AsJson, Data
from penstock.cli.screen import Refusal, printable

_SHOWN_FIELDS = 3
_FIELD_LETTERS = 60


def register(app: typer.Typer) -> None:
    app.command(
        "records", epilog="Example: penstock harvest records crossref --where 'updated_at >= 2024-01-01' --limit 50"
    )(records)


def records(  # noqa: PLR0913  one parameter for each option
    source: SourceCode,
    *,
    endpoint: OfEndpoint = None,
    where: Filter = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 20,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Go on after this id.", show_default=False)] = None,
    one: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="This one, with its body.", show_default=False)
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show records in the order of their ids; `penstock harvest export` writes them all to a file."""
    asked = Asked(source, endpoint, where, data)
    if one is not None:
        _show_one(asyncio.run(_read_one(asked, one)), as_json=as_json)
        return
    found = asyncio.run(_read(asked, limit + 1, after))
    shown = found[:limit]
    if as_json:
        screen.print_json([plain(row) for row in shown])
        return
    console = screen.console()
    if not shown:
        console.print(screen.text("No records.", "没有记录。"), style="dim")
        return
    _print(shown)
    if len(found) > limit:
        said = screen.text("There are more: --limit, or --after", "还有更多：可用 --limit，或 --after")
        console.print(Text(f"\n{said} {printable(shown[-1]['provider_id'])}", style="dim"))


async def _read(asked: Asked, limit: int, after: str | None) -> list[dict[str, Any]]:
    from penstock.harvest.records import select_records

    async with reach(asked) as (database, chosen), database.transaction() as tx:
        return await select_records(tx, chosen, limit=limit, after=after)


async def _read_one(asked: Asked, provider_id: str) -> dict[str, Any]:
    from penstock.harvest.records import read_record

    async with reach(asked) as (database, chosen), database.transaction() as tx:
        found = await read_record(tx, chosen, provider_id)
    if found is None:
        raise Refusal(
            f"{chosen.source}/{chosen.endpoint} has no record {provider_id}.",
            f"{chosen.source}/{chosen.endpoint} 没有记录 {provider_id}。",
        )
    return found


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Fit for JSON."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _show_one(row: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        screen.print_json(plain(row))
        return
    body = row.pop("body")
    console = screen.console(stderr=True)  # the body alone goes to stdout: it can be piped on
    for name, value in plain(row).items():
        screen.print_labelled(console, name, printable(str(value)), width=14)
    if sys.stdout.isatty():
        body = "\n".join(printable(line.replace("\t", "    ")) for line in body.splitlines())
    sys.stdout.write(body + "\n")


def _print(rows: list[dict[str, Any]]) -> None:
    columns = [
        screen.text("Id", "标识"), screen.text("Updated", "更新于"), screen.text("Rev.", "修订"),
        screen.text("Fields", "字段"),
    ]  # fmt: skip
    table = screen.table(columns, [_row(row) for row in rows])
    table.columns[1].no_wrap = True
    screen.console().print(table)


def _row(row: dict[str, Any]) -> list[str | Text]:
    style = "dim strike" if row["is_deleted"] else ""
    return [
        Text(printable(row["provider_id"]), style=style),
        row["updated_at"].strftime("%Y-%m-%d %H:%M:%S"),
        str(row["revision"]),
        Text(_fields(row["fields"])),
    ]


def _fields(fields: Any) -> str:
    if not isinstance(fields, dict):
        return ""
    pairs = list(fields.items())[:_SHOWN_FIELDS]
    return "; ".join(f"{printable(name)}: {_short(printable(str(value)))}" for name, value in pairs)


def _short(text: str) -> str:
    return text if len(text) <= _FIELD_LETTERS else text[: _FIELD_LETTERS - 1] + "…"
