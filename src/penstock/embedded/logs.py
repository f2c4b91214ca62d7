"""Log files of the children: capped in size, and followed for `--verbose`.

Processes append to their file by themselves, so that they can go on writing when the supervisor is gone.
A file that has grown too large is copied to `.1` and emptied in place: appending writers do not notice.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

_CAP = 16 * 1024 * 1024


def cap(log: Path, size: int = _CAP) -> None:
    """Keep the last full file and the growing one."""
    with contextlib.suppress(OSError):
        if log.stat().st_size > size:
            shutil.copyfile(log, log.with_name(log.name + ".1"))
            with log.open("r+b") as emptied:
                emptied.truncate(0)


class Follower:
    """Reads what has been appended since the last look."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._read = log.stat().st_size if log.exists() else 0

    def lines(self) -> Iterator[str]:
        """Whole lines only; the rest is left for the next look."""
        try:
            with self._log.open("rb") as source:
                if source.seek(0, 2) < self._read:
                    self._read = 0  # it was emptied
                source.seek(self._read)
                fresh = source.read(1024 * 1024)
        except FileNotFoundError:
            return
        whole = fresh.rfind(b"\n") + 1 or (len(fresh) if len(fresh) == 1024 * 1024 else 0)
        self._read += whole
        yield from fresh[:whole].decode(errors="replace").splitlines()
