"""`penstock harvest export`: records as JSON lines, CSV or Parquet."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from penstock.cli import screen
from penstock.cli.harvest.reaching import Asked, Filter, OfEndpoint, SourceCode, reach
from penstock.cli.options import AsJson, Data
from penstock.cli.screen import Refusal
from penstock.harvest.records import STANDARD_OUTPUT, Export, Format, Order, count_records, format_of, is_plain


def register(app: typer.Typer) -> None:
    app.command("export", epilog="Example: penstock harvest export crossref works.jsonl.gz --where 'deleted = false'")(
        export
    )


def export(  # noqa: PLR0913  one parameter for each option
    source: SourceCode,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help=".jsonl, .csv (also .gz) or .parquet; - for standard output.")
    ],
    *,
    endpoint: OfEndpoint = None,
    where: Filter = None,
    kind: Annotated[
        Format | None, typer.Option("--format", help="Else by the file's ending.", show_default=False)
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Write records to a file, which appears when it is whole, or to standard output.

    In CSV a cell that a spreadsheet would run as a formula gets an apostrophe in front.
    """
    chosen_format = _check(file, kind)
    count = asyncio.run(_export(Asked(source, endpoint, where, data), file, chosen_format, quiet=as_json))
    if as_json:
        size = file.stat().st_size if is_plain(file) else None
        described = {"file": str(file), "format": chosen_format, "records": count, "bytes": size}
        screen.print_json(described, stderr=file == STANDARD_OUTPUT)
        return
    said = screen.text(f"{count:,} records in {file}", f"已将 {count:,} 条记录写入 {file}")
    screen.console(stderr=file == STANDARD_OUTPUT).print(f"[green]✓[/green] {escape(said)}")


def _check(file: Path, kind: Format | None) -> Format:
    chosen = kind or format_of(file)
    if chosen is None:
        raise Refusal(
            f"{file.name} does not tell its format: let it end in .jsonl, .csv or .parquet, or add --format.",
            f"无法从 {file.name} 判断格式：请使用 .jsonl、.csv 或 .parquet 结尾，或加上 --format。",
        )
    if chosen is Format.PARQUET and not is_plain(file):
        raise Refusal(
            "Parquet needs a plain file: its writer looks back. Choose a file, or --format jsonl.",
            "Parquet 只能写入普通文件。请改写文件名，或使用 --format jsonl。",
        )
    if file.is_dir() or not file.parent.is_dir():
        raise Refusal(f"{file} cannot be written: no such directory, or it is one.", f"无法写入 {file}：请检查目录。")
    return chosen


async def _export(asked: Asked, file: Path, kind: Format, *, quiet: bool) -> int:
    async with reach(asked) as (database, chosen):
        total = None
        if not quiet and screen.console(stderr=True).is_terminal:
            async with database.transaction() as tx:
                total = await count_records(tx, chosen)
        with _bar(total) as progress:
            async with database.transaction() as tx:
                return await Export(Order(chosen, file, kind), progress).run(tx)


@contextmanager
def _bar(total: int | None) -> Iterator[Callable[[int], object]]:
    """In a terminal only."""
    if total is None:
        yield int
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen.console(stderr=True), transient=True) as shown:
        task = shown.add_task(screen.text("Writing", "正在写入"), total=total)
        yield lambda count: shown.update(task, completed=count)
