"""Files on disk: how much room there is, what a file's bytes are called."""

import hashlib
import shutil
from pathlib import Path

_PIECE = 4 * 1024 * 1024


def free_bytes(path: Path) -> int:
    """What an ordinary account may still use, on the file system that holds this path or will."""
    path = path.absolute()
    there = next(place for place in (path, *path.parents) if place.exists())
    return shutil.disk_usage(there).free


def sha256_of(path: Path) -> str:
    """Reads the whole file: call it in a thread."""
    digest = hashlib.sha256()
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
