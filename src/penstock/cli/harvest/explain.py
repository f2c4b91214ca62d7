"""`penstock harvest explain SOURCE`: every value that a run works with, and where it was written."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.harvest.files import open_database
from penstock.cli.harvest.reaching import OfEndpoint, SourceCode
from penstock.cli.options import AsJson, Data
from penstock.cli.screen import printable
from penstock.harvest.spec import Operation

if TYPE_CHECKING:
    from penstock.harvest.compiling.compile import Compiled
    from penstock.harvest.compiling.explain import Row

_LEVELS = {"platform": "dim", "source": "cyan", "endpoint": "blue", "section": "green", "run": "magenta"}


def register(app: typer.Typer) -> None:
    app.command("explain", epilog="Example: penstock harvest explain crossref --key rateLimit")(explain)


def explain(  # noqa: PLR0913, PLR0917  one parameter for each option
    source: SourceCode,
    endpoint: OfEndpoint = None,
    operation: Annotated[Operation, typer.Option(case_sensitive=False, help="What kind of work.")] = Operation.HARVEST,
    key: Annotated[str, typer.Option(metavar="PREFIX", help="Only keys that begin so.", show_default=False)] = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Show each value of a source as it is compiled, which level it comes from, and what it overrides."""
    from penstock.harvest.compiling.explain import explain as rows_of

    compiled = asyncio.run(_compile(data, source, endpoint, operation))
    rows = rows_of(compiled, key)
    if as_json:
        screen.print_json(_as_json(compiled, rows))
        return
    console = screen.console()
    if not rows:
        console.print(Text(screen.text(f"No key begins with {key}.", f"没有以 {key} 开头的键。"), style="dim"))
        return
    columns = [
        screen.text("Key", "键"), screen.text("Value", "值"), screen.text("Level", "层级"), screen.text("From", "出处"),
    ]  # fmt: skip
    table = screen.table(columns, [_row(each) for each in rows])
    table.columns[0].no_wrap = table.columns[2].no_wrap = True
    console.print(table)


async def _compile(data: Path | None, source: str, endpoint: str | None, operation: Operation) -> "Compiled":
    from penstock.harvest.desk import compile_registered
    from penstock.harvest.planning import Trigger
    from penstock.harvest.registry import store

    async with open_database(data) as database, database.transaction() as tx:
        registered = await store.load(tx, source)
    return compile_registered(registered, Trigger(source, endpoint, operation))


def _as_json(compiled: "Compiled", rows: "Sequence[Row]") -> dict[str, Any]:
    return {
        "source": compiled.spec.provenance_code,
        "endpoint": compiled.spec.endpoint_name,
        "operation": compiled.spec.operation,
        "expr_proto_hash": compiled.expr_proto_hash,
        "spec_fingerprint": compiled.spec_fingerprint,
        "warnings": list(compiled.warnings),
        "values": [
            {
                "key": each.key, "value": _plain(each.value), "level": each.level, "origin": each.origin,
                "removed": each.is_removed,
                "overrides": [
                    {"level": under.level, "origin": under.origin, "value": _plain(under.value)}
                    for under in each.overridden
                ],
            }
            for each in rows
        ],
    }  # fmt: skip


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)


def _row(each: "Row") -> list[str | Text]:
    value = (
        Text(screen.text("(taken away)", "（已移除）"), style="red") if each.is_removed else Text(_shown(each.value))
    )
    for under in each.overridden:
        value.append(f"\n{_shown(under.value)} ({under.level})", style="dim strike")
    return [each.key, value, Text(each.level, style=_LEVELS.get(each.level, "")), Text(printable(each.origin))]


def _shown(value: Any) -> str:
    from penstock.kernel import json

    plain = _plain(value)
    return printable(plain if isinstance(plain, str) else json.dumps(plain))
