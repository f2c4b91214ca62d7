"""What people see: the terminal's language, tables for eyes, JSON for programs."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.cells import set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.kernel.errors import Language, Sentence


class Refusal(Exception):
    """A command cannot do what was asked; the sentence says why and what to do."""

    def __init__(self, en: str, zh: str) -> None:
        super().__init__(en)
        self.sentence = Sentence(zh=zh, en=en)


def language(environ: Mapping[str, str] = os.environ) -> Language:
    """The terminal's, by the rules of the C library: LC_ALL, then LC_MESSAGES, then LANG."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environ.get(name):
            return Language.ZH if value.lower().startswith("zh") else Language.EN
    return Language.EN


def text(en: str, zh: str) -> str:
    return zh if language() is Language.ZH else en


def console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, soft_wrap=not (sys.stderr if stderr else sys.stdout).isatty())


def be_quiet() -> None:
    """What services log, a command shows; PENSTOCK_DEBUG=1 lets the log through."""
    if os.environ.get("PENSTOCK_DEBUG"):
        return
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # a database that is away is told once, by us


def say_failure(sentence: str) -> None:
    console(stderr=True).print(f"[bold red]penstock:[/bold red] {escape(sentence)}")


def print_json(value: Any, *, stderr: bool = False) -> None:
    to = sys.stderr if stderr else sys.stdout
    to.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def print_labelled(to: Console, label: str, value: str, *, width: int = 9) -> None:
    """A label and what it names, side by side. What does not fit folds under the value; in a pipe nothing folds."""
    if not to.is_terminal:
        to.print(Text(f"  {set_cell_size(label, width)} {value}"))
        return
    row = Table.grid(padding=(0, 1))
    row.add_column(width=width + 2, no_wrap=True, style="dim")
    row.add_column(overflow="fold")
    row.add_row(Text(f"  {label}"), Text(value))
    to.print(row)


def printable(said: str) -> str:
    """Strangers' text, such as a file's name: no control characters reach the terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in said)


def table(columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """Rows with room between them and no lines; the last column folds."""
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False, expand=False)
    for column in columns:
        drawn.add_column(column, overflow="fold")
    for row in rows:
        drawn.add_row(*row)
    return drawn
