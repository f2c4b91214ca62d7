"""Directories for embedded servers: reachable by the account that they run as (pytest's own are private)."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount, or give a directory away")
not_as_root = pytest.mark.skipif(os.geteuid() == 0, reason="root may do anything")


@contextmanager
def open_directory() -> Iterator[Path]:
    """A temporary directory that everyone may enter."""
    path = Path(tempfile.mkdtemp(prefix="penstock-test-", dir=_memory()))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _memory() -> str | None:
    """Clusters come and go faster in memory, where there is enough of it."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() and shutil.disk_usage(shared).free > 2**30 else None


@contextmanager
def mounted(path: Path, options: str) -> Iterator[Path]:
    """A file system of its own in memory, such as one that is small or read-only."""
    path.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    tried = subprocess.run(command, check=False, capture_output=True, text=True)
    if tried.returncode != 0:
        pytest.skip(f"this machine does not let us mount: {tried.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
