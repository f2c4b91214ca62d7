"""What `penstock upload` shows on stderr: bars in a terminal, lines elsewhere, nothing beside JSON.

Results go to stdout and are not this file's affair.
"""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol, Self

from rich.filesize import decimal
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.progress import TimeRemainingColumn as Remaining
from rich.table import Column

from penstock.cli import screen
from penstock.cli.remote import Away, Refused
from penstock.cli.screen import Refusal, printable

_LINE_SECONDS = 5.0


class View(Protocol):
    """Told of every step of every file."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def begin(self, path: Path, size: int) -> None: ...
    def at(self, offset: int) -> None: ...
    def goes_on(self, offset: int) -> None: ...
    def begins_anew(self, en: str, zh: str) -> None: ...
    def waits(self, failure: Refusal, seconds: float) -> None: ...
    def checks(self) -> None: ...
    def end(self) -> None: ...
    def aside(self) -> AbstractContextManager[None]: ...


def view_for(sizes: list[int], *, quiet: bool) -> View:
    if quiet:
        return Nothing()
    return Bars(sizes) if screen.console(stderr=True).is_terminal else Lines()


class Nothing:
    """For programs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...
    def begin(self, path: Path, size: int) -> None: ...
    def at(self, offset: int) -> None: ...
    def goes_on(self, offset: int) -> None: ...
    def begins_anew(self, en: str, zh: str) -> None: ...
    def waits(self, failure: Refusal, seconds: float) -> None: ...
    def checks(self) -> None: ...
    def end(self) -> None: ...

    def aside(self) -> AbstractContextManager[None]:
        """While a result is printed."""
        return nullcontext()


class Lines(Nothing):
    """For logs: a line now and then."""

    def __init__(self) -> None:
        self._console = screen.console(stderr=True)
        self._name, self._size, self._said = "", 0, 0.0
        self._waiting = ""

    def begin(self, path: Path, size: int) -> None:
        self._name, self._size, self._said, self._waiting = path.name, size, time.monotonic(), ""
        self._say(screen.text(f"uploading {decimal(size)}", f"正在上传 {decimal(size)}"))

    def at(self, offset: int) -> None:
        self._waiting = ""
        if time.monotonic() - self._said >= _LINE_SECONDS:
            self._say(self._share(offset))

    def goes_on(self, offset: int) -> None:
        said = self._share(offset)
        self._say(screen.text(f"going on at {said}", f"继续上传，已完成 {said}"))

    def begins_anew(self, en: str, zh: str) -> None:
        self._say(screen.text(f"begins anew: {en}", f"重新开始：{zh}"))

    def waits(self, failure: Refusal, seconds: float) -> None:
        if str(failure) != self._waiting:  # once for each trouble, not for each try
            self._waiting = str(failure)
            self._say(what_for(failure, seconds))

    def checks(self) -> None:
        self._say(screen.text("sent; the server looks at it", "已上传；服务器正在检查"))

    def _say(self, said: str) -> None:
        self._said = time.monotonic()
        self._console.print(f"{escape(printable(self._name))}: {escape(said)}")

    def _share(self, offset: int) -> str:
        return f"{100 * offset // max(1, self._size)}% ({decimal(offset)} / {decimal(self._size)})"


class Bars(Lines):
    """For people: one bar for each file under way, and one for all when there are several."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__()
        self._progress = Progress(
            TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis", max_width=24)),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=8)),
            DownloadColumn(),
            TransferSpeedColumn(),
            Remaining(compact=True),
            console=self._console,
            expand=True,
            transient=True,
        )
        self._bar = TaskID(0)
        self._before = 0
        all_files = screen.text(f"all {len(sizes)} files", f"全部 {len(sizes)} 个文件")
        self._total = self._progress.add_task(all_files, total=sum(sizes)) if len(sizes) > 1 else None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, path: Path, size: int) -> None:
        self._name, self._size, self._waiting = path.name, size, ""
        self._bar = self._progress.add_task(escape(printable(path.name)), total=size)

    def at(self, offset: int) -> None:
        self._waiting = ""
        self._progress.update(self._bar, completed=offset)
        if self._total is not None:
            self._progress.update(self._total, completed=self._before + offset)

    def goes_on(self, offset: int) -> None:
        super().goes_on(offset)
        self.at(offset)

    def checks(self) -> None:
        said = screen.text("checking", "检查中")
        self._progress.update(self._bar, description=f"{said} {escape(printable(self._name))}")

    @contextmanager
    def aside(self) -> Iterator[None]:
        self._progress.stop()
        yield
        self._progress.start()

    def end(self) -> None:
        self._progress.remove_task(self._bar)
        self._before += self._size
        if self._total is not None:
            self._progress.update(self._total, completed=self._before)


def what_for(failure: Refusal, seconds: float) -> str:
    """What we wait for, and how much longer."""
    left = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
    if isinstance(failure, Away):
        return screen.text(
            f"{failure.who.en} does not answer; trying again for up to {left}",
            f"{failure.who.zh}没有应答；将继续重试，最多 {left}",
        )
    said = failure.message if isinstance(failure, Refused) else str(failure)
    return screen.text(f"{said}; trying again for up to {left}", f"{said}；将继续重试，最多 {left}")
