"""`penstock version`."""

import platform

import typer

import penstock
from penstock.cli import screen
from penstock.cli.options import AsJson


def register(app: typer.Typer) -> None:
    app.command("version", epilog="Example: penstock version --json")(version)


def version(as_json: AsJson = False) -> None:
    """Print the version of Penstock and of Python."""
    said = {"penstock": penstock.__version__, "python": platform.python_version(), "platform": platform.platform()}
    if as_json:
        screen.print_json(said)
    else:
        typer.echo(f"Penstock {said['penstock']} (Python {said['python']}, {said['platform']})")
