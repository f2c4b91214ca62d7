"""A short seeded run of the soak of ETL that `make chaos` does at length."""

from pathlib import Path

import pytest

from tests.chaos import etl_soak

SEED = 20726


@pytest.mark.timeout(200)
class TestEtlUnderFire:
    def test_every_task_ends_as_it_does_when_nothing_happens(self, fresh_home: Path):
        counted = etl_soak.run(fresh_home, seed=SEED, documents=10, troubles=8, seconds=150)
        assert counted["documents"] == 10
        assert counted["processes killed"] == 6  # three workers, the scheduler and both servers
        assert counted["looks"] >= 10
