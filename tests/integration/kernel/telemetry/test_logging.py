"""Log lines as they leave a process: whole, masked, for people or for machines."""

import asyncio
import io
import logging
import re
import sys

import pytest
import structlog
from tests.support.log_lines import MASKER, Lines, logging_to

from penstock.kernel.telemetry import (
    LogFormat,
    LogLevel,
    TelemetrySettings,
    bound,
    configure_logging,
)


class TestLogging:
    def test_a_line_is_one_json_object_with_its_context(self):
        lines = Lines()
        log = logging_to(lines)
        with bound(request_id="r-1", job_id=None):
            log.info("page done", page=3, tags=["a"])
        [record] = lines.records
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:.]+Z", record.pop("timestamp"))
        assert record == {
            "level": "info",
            "event": "page done",
            "logger": "penstock.test",
            "role": "serve",
            "worker_id": "host-1",
            "request_id": "r-1",
            "page": 3,
            "tags": ["a"],
        }

    def test_half_of_a_letter_costs_no_line(self):
        lines = Lines()
        logging_to(lines).error("failed", merchant="m\ud800")
        assert [record["merchant"] for record in lines.records] == ["m?"]

    def test_lines_go_to_stderr_as_it_is_now(self, monkeypatch):
        configure_logging("serve", "host-1", TelemetrySettings(), masker=MASKER)
        later = Lines()
        monkeypatch.setattr(sys, "stderr", later)
        structlog.get_logger("penstock.test").info("said")
        assert [record["event"] for record in later.records] == ["said"]

    def test_libraries_speak_through_the_same_pipeline(self):
        lines = Lines()
        library = logging.getLogger("arq.worker")
        library.addHandler(logging.StreamHandler(io.StringIO()))  # as libraries do
        library.propagate = False
        logging_to(lines)
        with bound(request_id="r-1"):
            library.warning("job %s failed for %s", 5, "bob@example.com", extra={"queue": "q"})
        [record] = lines.records
        assert record["event"].startswith("job 5 failed for <email#")
        assert (record["logger"], record["level"], record["request_id"]) == ("arq.worker", "warning", "r-1")
        assert (record["role"], record["queue"]) == ("serve", "q")

    def test_secrets_in_values_exceptions_and_stacks_are_masked(self):
        lines = Lines()
        log = logging_to(lines)
        try:
            fail("cannot reach redis://:hunter2@host and bob@example.com")
        except ValueError:
            log.exception("failed with token=hunter2", headers={"Authorization": "Bearer hunter2"})
            logging.getLogger("redis").exception("again, password=%s", "hunter2")
        first, second = lines.records
        assert "hunter2" not in lines.getvalue()
        assert "bob@example" not in lines.getvalue()
        for record in (first, second):
            assert "ValueError: cannot reach redis://<credentials#" in record["exception"]
            assert "Traceback" in record["exception"]
        assert first["headers"]["Authorization"].startswith("<secret#")

    def test_what_is_below_the_level_is_not_written(self):
        lines = Lines()
        log = logging_to(lines, log_level=LogLevel.WARNING)
        log.info("no")
        logging.getLogger("other").info("no")
        log.warning("yes")
        assert [record["event"] for record in lines.records] == ["yes"]

    @pytest.mark.parametrize(
        ("chosen", "terminal", "is_json", "coloured"),
        [
            (LogFormat.AUTO, True, False, True),
            (LogFormat.AUTO, False, True, False),
            (LogFormat.JSON, True, True, False),
            (LogFormat.CONSOLE, False, False, False),
        ],
    )
    def test_people_get_readable_lines_and_machines_get_json(self, chosen, terminal, is_json, coloured):
        lines = Lines(terminal=terminal)
        log = logging_to(lines, log_format=chosen)
        try:
            fail("token=hunter2")
        except ValueError:
            log.exception("page done", page=3)
        text = lines.getvalue()
        assert text.startswith("{") is is_json
        assert ("\x1b[" in text) is coloured
        assert "page done" in text
        assert "hunter2" not in text

    async def test_what_is_bound_stays_with_its_task(self):
        lines = Lines()
        log = logging_to(lines)

        async def work(name: str) -> None:
            with bound(request_id=name):
                await asyncio.sleep(0)
                log.info(name)

        await asyncio.gather(*(work(f"r{n}") for n in range(5)))
        assert all(record["event"] == record["request_id"] for record in lines.records)
        assert len(lines.records) == 5


def fail(text: str) -> None:
    raise ValueError(text)
