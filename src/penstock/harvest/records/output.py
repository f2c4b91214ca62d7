"""The output of an export: a plain file appears whole or not at all; pipes and devices are written to."""

import gzip
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, cast

STANDARD_OUTPUT = Path("-")
_LEVEL = 6
_BUFFER = 1 << 20


def is_plain(file: Path) -> bool:
    """Whether it is a plain file, or becomes one; also behind a link, which is kept."""
    return file != STANDARD_OUTPUT and (file.is_file() or not file.exists())


@contextmanager
def open_output(file: Path, *, is_packed: bool) -> Iterator[IO[bytes]]:
    with _raw_output(file) as raw:
        if not is_packed:
            yield raw
            return
        with gzip.GzipFile("", "wb", compresslevel=_LEVEL, fileobj=raw) as packed:
            yield cast("IO[bytes]", packed)


def _raw_output(file: Path) -> AbstractContextManager[IO[bytes]]:
    if file == STANDARD_OUTPUT:
        return os.fdopen(os.dup(1), "wb", buffering=_BUFFER)
    return _whole_file(file.resolve()) if is_plain(file) else file.open("wb", buffering=_BUFFER)


@contextmanager
def _whole_file(file: Path) -> Iterator[IO[bytes]]:
    """A file beside the wanted one, put in its place when all is written and on the disk; removed otherwise."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with part.open("wb", buffering=_BUFFER) as raw:
            yield raw
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
