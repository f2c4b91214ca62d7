"""Where Unix sockets lie. Their paths are short and plain, whatever the data directory is called."""

import contextlib
import hashlib
import os
import re
import tempfile
from pathlib import Path

_PLAIN = re.compile(rb"[A-Za-z0-9._/-]{1,80}")  # the kernel's limit is about 100 bytes, file name included


def leave(directory: Path) -> None:
    """Remove a stand-in that is empty again; one that is still in use stays."""
    if directory.parent == Path(tempfile.gettempdir()):
        with contextlib.suppress(OSError):
            directory.rmdir()


def socket_directory(wanted: Path) -> Path:
    """`wanted`, or a stand-in under the temporary directory when its path is too long or too odd for a socket."""
    raw = os.fsencode(wanted)
    if _PLAIN.fullmatch(raw):
        return wanted
    return Path(tempfile.gettempdir()) / f"penstock-{hashlib.sha256(raw).hexdigest()[:16]}"
