"""An output file of bytes, packed or not."""

import gzip
from pathlib import Path
from typing import IO, cast

_LEVEL = 6


def open_output(path: Path, *, is_packed: bool) -> IO[bytes]:
    if not is_packed:
        return path.open("wb", buffering=1 << 20)
    return cast("IO[bytes]", gzip.open(path, "wb", compresslevel=_LEVEL))
