"""Gives freed memory back to the system after a page.

Lines of many lengths leave holes all over the heap, and without this a process seems to grow by some megabytes a page
until it is replaced. It costs a few milliseconds, and a process then holds on to little but its models.
"""

import ctypes
import sys
from typing import Any

_libc: Any = ctypes.CDLL(None) if sys.platform == "linux" else None


def give_back() -> None:
    if hasattr(_libc, "malloc_trim"):  # glibc; others have no such holes, or no remedy
        _libc.malloc_trim(0)
