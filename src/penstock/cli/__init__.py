"""The command line: `penstock COMMAND`. Each command lives in a file of its own and imports what it needs.

Our own errors end as one sentence on stderr and exit code 1; PENSTOCK_DEBUG=1 shows where they came from.
"""

import io
import os
import sys
from collections.abc import Sequence

import typer
from psycopg.errors import UndefinedColumn, UndefinedTable

from penstock.cli import (
    bench,
    cancel,
    config,
    doctor,
    harvest,
    job,
    jobs,
    migrate,
    requeue,
    screen,
    sign_in,
    token,
    up,
    upload,
    version,
)  # fmt: skip
from penstock.cli import roles as role_commands
from penstock.embedded.failure import EmbeddedFailure
from penstock.embedded.stopping import Interrupted
from penstock.kernel.errors import Language, PenstockError
from penstock.kernel.settings import SettingsError

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
    up, upload, jobs, job, cancel, requeue, harvest, role_commands, doctor, config, token, sign_in, migrate, bench,
    version,
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
        screen.say_failure(_sentence(failure))
        sys.exit(1)


def _in(language: Language, value: object) -> object:
    """A detail that is there in both languages is shown in one."""
    return value.get(str(language), value) if isinstance(value, dict) else value


def _sentence(failure: Exception) -> str:
    language = screen.language()
    if isinstance(failure, EmbeddedFailure):
        return failure.in_language(language)
    if isinstance(failure, screen.Refusal):
        return failure.sentence.in_language(language)
    if isinstance(failure, PenstockError):
        details = "".join(f" {key}={_in(language, value)}" for key, value in failure.details.items())
        said = failure.code.message.in_language(language)
        return f"{said} ({failure.code.code}{details}). {failure.code.remedy.in_language(language)}."
    if isinstance(failure, SettingsError):
        return str(failure)
    if isinstance(failure, UndefinedTable | UndefinedColumn):
        return screen.text(
            "The database does not have this release's tables: run `penstock migrate`, then start again.",
            "数据库尚无此版本所需的表：请先运行 penstock migrate，再重新启动。",
        )
    unexpected = screen.text(
        "Something unexpected happened; run it again with PENSTOCK_DEBUG=1 to see where",
        "发生意外错误；设置 PENSTOCK_DEBUG=1 后重试可查看详情",
    )
    return f"{unexpected}: {type(failure).__name__}: {failure}"
