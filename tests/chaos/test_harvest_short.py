"""A short seeded run of the soak of harvests that `make chaos` does at length."""

from pathlib import Path

import pytest

from tests.chaos import harvest_soak
from tests.chaos.harvest_soak import Size

SEED = 20263
FAULTS = (
    "rate_500", "reset", "truncated_json", "wrong_content_type", "repeat_page", "out_of_order", "duplicate_ids",
    "changing_totals",
)  # fmt: skip


@pytest.mark.timeout(300)
class TestHarvestsUnderFire:
    def test_the_records_are_those_of_the_source_each_version_stored_once_and_no_cursor_went_back(
        self, fresh_home: Path
    ):
        counted = harvest_soak.run(fresh_home, seed=SEED, size=Size(rounds=5, faults=3.0))
        assert counted["executors killed"] >= 3
        for happened in ("PostgreSQL killed", "Redis emptied", "executors paused", "runs lost"):
            assert counted[happened] >= 1, happened
        for fault in FAULTS:
            assert counted[f"fault: {fault}"] >= 1, fault
        assert counted["versions stored"] > counted["records"] > 1000  # some were seen to change
        assert counted["plans"] >= 8
