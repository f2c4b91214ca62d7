"""How far a window may be closed when the source's clock is behind ours."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock.harvest.executing.clocks import clock_behind, closable, held_back, is_believable
from penstock.harvest.executing.position import Position
from penstock.harvest.planning.windows import Wish
from penstock.harvest.slices import Span
from penstock.harvest.spec import Spec

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
MORNING = Span(NOON - timedelta(hours=6), NOON)


def spec(operation: str = "HARVEST") -> Spec:
    return Spec.model_validate({
        "provenanceCode": "s", "endpointName": "e", "operation": operation, "registryVersion": 1,
        "window": {"safetyLag": "10m", "align": "hour"},
    })  # fmt: skip


def asked(minutes: int, behind: int) -> Wish:
    return Wish(None, None, NOON + timedelta(minutes=minutes), timedelta(minutes=behind))


class TestMeasuring:
    @pytest.mark.parametrize(
        ("measured", "counted"), [(-300, 0), (0, 0), (4.9, 0), (5, 10), (10, 10), (10.3, 20), (3600, 3600)]
    )
    def test_noise_counts_as_none_and_the_rest_is_rounded_up(self, measured: float, counted: int):
        assert clock_behind(timedelta(seconds=measured)) == timedelta(seconds=counted)

    @pytest.mark.parametrize(
        ("hours", "believed"), [(-100_000, True), (0, True), (14, True), (25, False), (490_000, False)]
    )
    def test_no_clock_is_wrong_by_days(self, hours: int, believed: bool):
        assert is_believable(timedelta(hours=hours)) is believed


class TestHoldingBack:
    def test_what_the_source_has_left_behind_by_the_lag_is_safe(self):
        assert held_back(spec(), MORNING, Position(), asked(10, 0)).safe_to is None
        assert held_back(spec(), MORNING, Position(), asked(15, 5)).safe_to is None

    def test_the_rest_is_not_and_the_edge_is_one_that_a_plan_would_choose(self):
        assert held_back(spec(), MORNING, Position(), asked(10, 5)).safe_to == NOON - timedelta(hours=1)

    def test_the_least_safe_page_counts(self):
        early = held_back(spec(), MORNING, Position(), asked(10, 90))
        assert held_back(spec(), MORNING, early, asked(10, 5)).safe_to == early.safe_to == NOON - timedelta(hours=2)

    def test_a_backfill_is_never_held_back(self):
        assert held_back(spec("BACKFILL"), MORNING, Position(), asked(0, 600)).safe_to is None


class TestClosing:
    def test_all_of_it_a_part_or_nothing(self):
        assert closable(MORNING, None) == MORNING
        assert closable(MORNING, NOON) == MORNING
        assert closable(MORNING, NOON - timedelta(hours=1)) == Span(MORNING.start, NOON - timedelta(hours=1))
        assert closable(MORNING, MORNING.start) is None
