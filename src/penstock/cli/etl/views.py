"""What `penstock etl` shows on stderr while it works: a bar in a terminal, lines elsewhere, nothing beside JSON."""

import time
from typing import Protocol, Self

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column

from penstock.cli import screen
from penstock.cli.screen import printable

_LINE_SECONDS = 1.0


class View(Protocol):
    """Told of every page, then of every part of the result."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    async def read(self, done: int, total: int) -> None: ...
    async def made(self, done: int, total: int) -> None: ...


def view_for(name: str, *, quiet: bool) -> View:
    if quiet:
        return Nothing()
    return Bar(name) if screen.console(stderr=True).is_terminal else Lines(name)


class Nothing:
    """For programs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
    async def read(self, done: int, total: int) -> None: ...
    async def made(self, done: int, total: int) -> None: ...


class Lines(Nothing):
    """For logs: a line for a page, but not many in a second."""

    def __init__(self, name: str) -> None:
        self._console = screen.console(stderr=True)
        self._name, self._said = printable(name), 0.0

    async def read(self, done: int, total: int) -> None:
        if done and (done == total or time.monotonic() - self._said >= _LINE_SECONDS):
            self._say(screen.text(f"{done} of {total} pages read", f"已读取 {done} / {total} 页"))

    async def made(self, done: int, total: int) -> None:
        if total > 1 and time.monotonic() - self._said >= _LINE_SECONDS:
            self._say(screen.text(f"making JSON, {done} of {total}", f"正在生成 JSON，{done} / {total}"))

    def _say(self, said: str) -> None:
        self._said = time.monotonic()
        self._console.print(f"{escape(self._name)}: {said}")


class Bar(Nothing):
    """For people."""

    def __init__(self, name: str) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=2)),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=6)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            TimeRemainingColumn(compact=True, table_column=Column(no_wrap=True)),
            console=screen.console(stderr=True),
            expand=True,
            transient=True,
        )
        shown = escape(printable(name))
        self._reading = self._progress.add_task(screen.text(f"Reading {shown}", f"正在读取 {shown}"), total=None)
        self._making = self._progress.add_task(
            screen.text("Making JSON", "正在生成 JSON"), total=None, visible=False, start=False
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    async def read(self, done: int, total: int) -> None:
        self._progress.update(self._reading, completed=done, total=total)

    async def made(self, done: int, total: int) -> None:
        if not self._progress.tasks[self._making].started:
            self._progress.start_task(self._making)
        self._progress.update(self._making, completed=done, total=total, visible=True)
