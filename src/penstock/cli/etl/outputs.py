"""Where `penstock etl` writes, and how: every file under a temporary name beside its place, renamed when it is whole.

What an earlier run wrote is replaced. Anything else of the same name is somebody's, and is refused before the document
is read. Invariant: whatever ends the command, no name stands for a half-written file.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from uuid import uuid4

from penstock.cli.screen import Refusal, printable

FORMAT = "penstock.etl/1"
JSON_BEGINS = f'{{\n  "format": "{FORMAT}"'
PAGES_BEGIN = '[\n{"number":'
_MARKDOWN_BEGINS = "<!-- page "
_LONGEST_NAME = 200  # bytes; file systems allow 255, and temporary names are longer
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True, slots=True)
class Outputs:
    """The names of what is written."""

    markdown: Path
    json: Path
    images: Path
    pages: Path | None = None


def choose_outputs(source: Path, out: str | None, pages: Path | None, *, is_forced: bool) -> Outputs:
    """`out` is a directory, or a name with or without its ending; without it, the working directory."""
    directory, stem = _named(source, out)
    if len(f"{stem}-images".encode(errors="replace")) > _LONGEST_NAME:
        raise Refusal(
            f"The name {stem} is too long; choose another with --out.", f"名称过长：{stem}，请用 --out 指定。"
        )
    chosen = Outputs(directory / f"{stem}.md", directory / f"{stem}.json", directory / f"{stem}-images", pages)
    for place in {directory, *({pages.parent} if pages else ())}:
        _check_directory(place)
    if pages is not None and pages.absolute() in {chosen.markdown.absolute(), chosen.json.absolute()}:
        raise Refusal(f"--pages {pages} is a name of the result itself.", f"--pages {pages} 与结果文件同名。")
    for path in (chosen.markdown, chosen.json, chosen.images, *((pages,) if pages else ())):
        _check_free(path, source, chosen, is_forced=is_forced)
    return chosen


def _named(source: Path, out: str | None) -> tuple[Path, str]:
    if out is None:
        return Path(), source.stem
    named = Path(out)
    if out.endswith(os.sep) or named.is_dir():
        return named, source.stem
    return named.parent, named.stem if named.suffix.lower() in {".md", ".json"} else named.name


def _check_directory(place: Path) -> None:
    shown = printable(str(place.absolute()))
    if not place.is_dir():
        raise Refusal(f"{shown} is not a directory; make it first.", f"{shown} 不是目录；请先创建。")
    if not os.access(place, os.W_OK | os.X_OK):
        raise Refusal(
            f"{shown} may not be written to; choose another place with --out.",
            f"没有权限写入 {shown}；请用 --out 指定其他位置。",
        )


def _check_free(path: Path, source: Path, chosen: Outputs, *, is_forced: bool) -> None:
    if not path.exists() and not path.is_symlink():
        return
    shown = printable(str(path))
    if path.exists() and path.samefile(source):
        raise Refusal(
            f"{shown} is the document itself; choose another name with --out.",
            f"{shown} 就是要读取的文件；请用 --out 指定其他名称。",
        )
    if path.is_dir() != (path == chosen.images):
        raise Refusal(
            f"{shown} is in the way; choose another name with --out.", f"{shown} 已被占用；请用 --out 指定其他名称。"
        )
    if not is_forced and not _is_of_an_earlier_run(path, chosen):
        raise Refusal(
            f"{shown} is there already and was not written by this command: choose another name with --out, or add"
            " --force to replace it.",
            f"{shown} 已存在，且不是本命令生成的：请用 --out 指定其他名称，或加 --force 覆盖。",
        )


def _is_of_an_earlier_run(path: Path, chosen: Outputs) -> bool:
    if path == chosen.images:
        return _begins(chosen.markdown, _MARKDOWN_BEGINS)
    begins = {chosen.markdown: _MARKDOWN_BEGINS, chosen.json: JSON_BEGINS}.get(path, PAGES_BEGIN)
    return _begins(path, begins)


def _begins(path: Path, text: str) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(text)) == text.encode()
    except OSError:
        return False


class Placing:
    """Files on their way to their names. Leaving it without `place` leaves nothing behind."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Path, Path]] = []
        self._outdated: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for temporary, _target in self._waiting:
            _remove(temporary)
        self._waiting.clear()

    def file(self, target: Path) -> Path:
        """Where to write what is to become `target`."""
        temporary = target.parent / f".{target.name}.{uuid4().hex[:8]}.part"
        self._waiting.append((temporary, target))
        return temporary

    def outdate(self, target: Path) -> None:
        """What an earlier run left there is gone when the rest is placed."""
        self._outdated.append(target)

    def place(self) -> None:
        """In the order in which they were asked for."""
        for target in self._outdated:
            with refused_as(target):
                _remove(target)
        while self._waiting:
            temporary, target = self._waiting[0]
            with refused_as(target):
                if temporary.is_dir() and target.exists():
                    _remove(target)
                temporary.replace(target)
            self._waiting.pop(0)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


@contextlib.contextmanager
def refused_as(path: Path) -> Iterator[None]:
    """What the system says against writing there, as a sentence."""
    try:
        yield
    except OSError as failure:
        shown, said = printable(str(path)), failure.strerror or str(failure)
        if failure.errno in _FULL:
            raise Refusal(
                f"The disk is full: {shown} was not written. Free some space, then run it again.",
                f"磁盘已满：未能写入 {shown}。请清理空间后重试。",
            ) from failure
        raise Refusal(f"{shown} cannot be written: {said}.", f"无法写入 {shown}：{said}。") from failure
