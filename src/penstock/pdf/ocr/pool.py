"""The pool of recognisers: one process per core, one thread each, models warm, replaced before memory creeps."""

import os
from typing import Any

from penstock.kernel.sandbox import Sandbox, SandboxSettings
from penstock.pdf.ocr.settings import OcrSettings

_PRELOAD = ("penstock.pdf.ocr.threads", "penstock.pdf.ocr.warm")
_START_SECONDS = 120.0  # loading takes three on an idle machine
_RESULT_BYTES = 16 << 20


def ocr_sandbox(settings: OcrSettings, sandbox_settings: SandboxSettings) -> Sandbox:
    """Not started: a document without scans needs none of it."""
    seconds = settings.page_seconds.total_seconds()
    given: dict[str, Any] = {
        "workers": settings.processes or cores(),
        "calls_per_worker": settings.pages_per_process,
        "growth": settings.growth,
        "start_seconds": max(_START_SECONDS, sandbox_settings.start_seconds),
        "memory": settings.memory,
        "cpu_seconds": seconds,
        "wall_seconds": seconds,
        "result_bytes": _RESULT_BYTES,
        "file_bytes": 0,
    }
    return Sandbox(sandbox_settings.model_copy(update=given), preload=_PRELOAD)


def cores() -> int:
    """Those that this process may use, not those of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
