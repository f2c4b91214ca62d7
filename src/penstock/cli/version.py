"""`penstock version`, and `penstock --version`, which people try first."""

import platform
from typing import Annotated

import typer

import penstock
from penstock.cli import screen
from penstock.cli.options import AsJson


def register(app: typer.Typer) -> None:
    app.command("version", epilog="Example: penstock version --json")(version)
    app.callback()(_options)


def version(as_json: AsJson = False) -> None:
    """Print the version of Penstock and of Python."""
    said = {"penstock": penstock.__version__, "python": platform.python_version(), "platform": platform.platform()}
    if as_json:
        screen.print_json(said)
    else:
        typer.echo(f"Penstock {said['penstock']} (Python {said['python']}, {said['platform']})")


def _show(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


def _options(
    _: Annotated[
        bool, typer.Option("--version", callback=_show, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """The options of `penstock` itself."""
