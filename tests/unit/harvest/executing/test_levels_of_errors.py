"""What is counted under which level: people are woken by L4, not by L1."""

import pytest
from prometheus_client import REGISTRY

from penstock.harvest.executing import metrics
from penstock.harvest.records import Counts
from penstock.kernel import error_codes

PLACE = ("levels", "works", "HARVEST")


def value(name: str, **more: str) -> float:
    labels = dict(zip(("source", "endpoint", "operation"), PLACE, strict=True))
    return REGISTRY.get_sample_value(f"penstock_harvest_{name}", labels | more) or 0


class TestLevels:
    @pytest.mark.parametrize(
        ("code", "level"),
        [
            (error_codes.SOURCE_UNAVAILABLE, "L1"),
            (error_codes.RATE_LIMITED, "L1"),
            (error_codes.SOURCE_REFUSED, "L2"),
            (error_codes.SOURCE_ANSWER_INVALID, "L2"),
            (error_codes.SOURCE_TRUNCATED, "L2"),
            (error_codes.EXPRESSION_FAILED, "L2"),
            (error_codes.SOURCE_AUTH_FAILED, "L4"),
            (error_codes.CREDENTIAL_MISSING, "L4"),
        ],
    )
    def test_a_code_has_one(self, code, level):
        assert metrics.level_of(code) == level

    def test_a_quarantined_item_is_an_error_of_its_own_level_and_no_failed_batch(self):
        before = value("errors_total", level="L3")
        metrics.count_batch(PLACE, Counts(3, 2, 1), 2, 0.1)
        assert value("errors_total", level="L3") - before == 2
        assert value("batches_total", status="FAILED") == 0
        actions = ("insert", "update", "skip", "quarantine")
        assert [value("items_total", action=action) for action in actions] == [3, 2, 1, 2]
