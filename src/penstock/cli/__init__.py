"""The command line: `penstock COMMAND`. Each command lives in a file of its own and imports what it needs.

Our own errors end as one sentence on stderr and exit code 1; PENSTOCK_DEBUG=1 shows where they came from.
"""

import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from penstock.cli import screen, version
from penstock.cli.sentences import sentence_of
from penstock.embedded.stopping import Interrupted

if TYPE_CHECKING:
    from penstock.cli.roles import Roles

PARTS = {
    "up": ["up"],
    "upload": ["upload"],
    "send": ["send"],
    "jobs": ["jobs"],
    "job": ["job"],
    "cancel": ["cancel"],
    "requeue": ["requeue"],
    "etl": ["etl"],
    "rules": ["rules"],
    "harvest": ["harvest"],
    "roles": ["serve", "worker", "executor", "scheduler", "bucket"],
    "doctor": ["doctor"],
    "config": ["config"],
    "token": ["token"],
    "sign_in": ["sign-in"],
    "migrate": ["migrate"],
    "bench": ["bench"],
}  # file: commands, as the help lists them


def command_line(asked: str | None) -> typer.Typer:
    """With the asked command alone, because what all of them import takes longer than most of them; else with all."""
    app = typer.Typer(
        name="penstock",
        help="Penstock takes in documents and records, once each, and turns them into checked, structured records.\n\n"
        "New here? Run [bold]penstock up[/bold] and open the address it prints.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    chosen = [part for part, commands in PARTS.items() if asked in commands] or PARTS
    for part in chosen:
        importlib.import_module(f"penstock.cli.{part}").register(app)
    version.register(app)
    return app


def main(arguments: Sequence[str] | None = None, *, roles: "Roles") -> None:
    """Run a command; an error of ours becomes a sentence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a tick shows a question mark
    try:
        given = list(sys.argv[1:] if arguments is None else arguments)
        command_line(given[0] if given else None)(args=given, prog_name="penstock", obj=roles)
    except (KeyboardInterrupt, Interrupted):
        sys.exit(130)
    except BrokenPipeError:  # `penstock config | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as failure:
        if os.environ.get("PENSTOCK_DEBUG"):
            raise
        screen.say_failure(sentence_of(failure))
        sys.exit(1)
