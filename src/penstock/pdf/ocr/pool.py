"""The pool of recognisers: as many pages at once as there are cores, each in a process forked from warm models."""

import os
from typing import Any

from penstock.kernel.sandbox import Sandbox, SandboxSettings
from penstock.pdf.examine import WALL_FACTOR
from penstock.pdf.ocr.settings import OcrSettings

_PRELOAD = ("penstock.pdf.ocr.warm",)
_IDLE_THREADS = 1  # onnxruntime's, which waits on a condition of its own from the import on
_START_SECONDS = 120.0  # loading takes three on an idle machine
_RESULT_BYTES = 16 << 20


def ocr_sandbox(settings: OcrSettings, sandbox_settings: SandboxSettings) -> Sandbox:
    """Not started: a document without scans needs none of it."""
    seconds = settings.page_seconds.total_seconds()
    given: dict[str, Any] = {
        "workers": settings.processes or cores(),
        "start_seconds": max(_START_SECONDS, sandbox_settings.start_seconds),
        "memory": settings.memory,
        "cpu_seconds": seconds,
        "wall_seconds": WALL_FACTOR * seconds,
        "result_bytes": _RESULT_BYTES,
    }
    return Sandbox(sandbox_settings.model_copy(update=given), preload=_PRELOAD, idle_threads=_IDLE_THREADS)


def cores() -> int:
    """Those that this process may use, not those of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
