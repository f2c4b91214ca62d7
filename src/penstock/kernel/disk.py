"""How much room there is."""

import shutil
from pathlib import Path


def free_bytes(path: Path) -> int:
    """What an ordinary account may still use, on the file system that holds this path or will."""
    path = path.absolute()
    there = next(place for place in (path, *path.parents) if place.exists())
    return shutil.disk_usage(there).free
