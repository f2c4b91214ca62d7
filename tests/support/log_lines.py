"""A log that is written to memory, as the program would write it."""

import io
import json
from typing import Any

import structlog

from penstock.kernel.telemetry import Masker, TelemetrySettings, configure_logging

MASKER = Masker(b"test")


class Lines(io.StringIO):
    """What was written, line by line."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.getvalue().splitlines()]


def logging_to(lines: Lines, **settings: Any) -> structlog.stdlib.BoundLogger:
    configure_logging("serve", "host-1", TelemetrySettings(**settings), masker=MASKER, stream=lines)
    logger: structlog.stdlib.BoundLogger = structlog.get_logger("penstock.test")
    return logger
