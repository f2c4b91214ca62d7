"""Logging and tracing are the process's: each test leaves them as they were."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from tests.support.log_lines import MASKER

from penstock.kernel.telemetry import TelemetrySettings, configure_tracing


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)
    structlog.reset_defaults()
    configure_tracing("test", "w", TelemetrySettings(), masker=MASKER)
