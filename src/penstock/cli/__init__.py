"""The command line: `penstock COMMAND`. Each command lives in a file of its own and imports what it needs.

Our own errors end as one sentence on stderr and exit code 1; PENSTOCK_DEBUG=1 shows where they came from.
"""

import io
import os
import sys
from collections.abc import Sequence

import typer

from penstock.cli import (
    bench,
    cancel,
    config,
    doctor,
    etl,
    harvest,
    job,
    jobs,
    migrate,
    requeue,
    rules,
    screen,
    send,
    sign_in,
    token,
    up,
    upload,
    version,
)  # fmt: skip
from penstock.cli import roles as role_commands
from penstock.cli.sentences import sentence_of
from penstock.embedded.stopping import Interrupted

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
PARTS = (
    up, upload, send, jobs, job, cancel, requeue, etl, rules, harvest, role_commands, doctor, config, token, sign_in,
    migrate, bench, version,
)  # fmt: skip
for part in PARTS:
    part.register(app)


def main(arguments: Sequence[str] | None = None, *, roles: role_commands.Roles) -> None:
    """Run a command; an error of ours becomes a sentence."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a tick shows a question mark
    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="penstock", obj=roles)
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
