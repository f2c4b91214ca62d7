"""`penstock config`: every setting, its value, where it came from and what it means."""

import dataclasses
from collections.abc import Iterator

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.options import AsJson, Data
from penstock.kernel.settings import SettingsFile, Shown, unknown_variables


def register(app: typer.Typer) -> None:
    app.command("config", epilog="Example: PENSTOCK_PORT=9000 penstock config --json")(config)


def config(data: Data = None, as_json: AsJson = False) -> None:
    """Show every setting, its value, where it came from and what it means. Secrets are masked.

    Set one in the environment or in penstock.toml (PENSTOCK_CONFIG names another file).
    """
    from penstock.bootstrap import GROUPS
    from penstock.cli.places import all_settings

    source = SettingsFile.find()
    groups = {name: [_placed(row) for row in source.show(group)] for name, group in all_settings(data).items()}
    if as_json:
        screen.print_json([dataclasses.asdict(row) for rows in groups.values() for row in rows])
        return
    console = screen.console()
    for name, rows in groups.items():
        console.print(f"\n[bold]{name.capitalize()}[/bold]")
        for row in rows:
            for line in _lines(row):
                console.print(line)
    if strange := unknown_variables(GROUPS.values()):
        sentence = screen.text("These variables set nothing; misspelt?", "以下变量不对应任何设置，是否拼写有误？")
        console.print(f"\n[yellow]{sentence}[/yellow]")
        for name, reason in strange.items():
            console.print(Text(f"  {name}: {reason}" if reason else f"  {name}"))


def _placed(row: Shown) -> Shown:
    """A secret that nobody named is the data directory's own."""
    ours = row.name == "PENSTOCK_JWT_SECRET" and row.origin == "command line"
    return dataclasses.replace(row, origin="data directory") if ours else row


def _lines(row: Shown) -> Iterator[Text]:
    changed = row.origin != "default"
    yield Text.assemble(
        "  ",
        (row.name, "cyan"),
        " = ",
        (row.value or '""', "bold" if changed else ""),
        (f"   ← {row.origin}", "yellow") if changed else "",
    )
    yield Text(f"      {row.meaning}", style="dim")
