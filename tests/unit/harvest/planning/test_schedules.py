"""When a schedule comes due, and what it triggers."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.support.planning import NOW

from penstock.harvest.planning import CandidateKind, check_cron
from penstock.harvest.planning.schedules import next_run, trigger_of
from penstock.harvest.spec import Operation
from penstock.kernel.errors import PenstockError

HOUR = timedelta(hours=1)


class TestCron:
    @pytest.mark.parametrize("text", ["0 3 * * *", "*/5 * * * *", "0 0 1 1 *", "15 2 * * mon-fri"])
    def test_what_can_be_read_is_fine(self, text):
        assert check_cron(text) is None

    @pytest.mark.parametrize("text", ["", "* * * *", "61 * * * *", "@daily", "0 0 30 2 *", "a b c d e", "* * * * * *"])
    def test_what_cannot_is_explained(self, text):
        assert check_cron(text)


class TestNextRun:
    def test_cron_is_in_utc_and_after_now(self):
        assert next_run("0 3 * * *", None, NOW - 50 * HOUR, NOW) == datetime(2024, 6, 2, 3, tzinfo=UTC)

    @pytest.mark.parametrize(("late", "ahead"), [(0, 60), (30, 30), (60, 60), (605, 55)])
    def test_missed_times_count_as_one_and_the_rhythm_is_kept(self, late, ahead):
        due = NOW - timedelta(minutes=late)
        assert next_run(None, HOUR, due, NOW) == NOW + timedelta(minutes=ahead)


def schedule(operation: Operation, **params) -> dict:
    return {
        "provenance_code": "crossref", "endpoint_name": "works", "operation_code": operation, "params": params,
        "next_run_at": NOW,
    }  # fmt: skip


class TestTrigger:
    def test_its_key_is_the_schedule_and_the_due_time(self):
        made = trigger_of(schedule(Operation.HARVEST, query="x"))
        assert made.idempotent_key == "schedule:crossref:works:HARVEST:2024-06-01T12:00:00+00:00"
        assert made.params == {"query": "x"}

    def test_what_is_about_planning_does_not_go_to_the_source(self):
        made = trigger_of(schedule(Operation.UPDATE, candidates="SIGNALS", limit=5))
        assert (made.candidates.kind, made.candidates.limit, made.params) == (CandidateKind.SIGNALS, 5, {})
        assert trigger_of(schedule(Operation.BACKFILL, since="2020-01-01")).since == datetime(2020, 1, 1, tzinfo=UTC)

    @pytest.mark.parametrize("params", [{"since": "soon"}, {"candidates": "ALL"}, {"limit": "many"}])
    def test_what_cannot_be_read_is_refused(self, params):
        with pytest.raises(PenstockError, match="SOURCE_FILE_INVALID"):
            trigger_of(schedule(Operation.UPDATE, **params))
