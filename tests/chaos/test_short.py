"""A short seeded run of the soak that `make chaos` does at length."""

from pathlib import Path

import pytest

from tests.chaos import soak

SEED = 20260


@pytest.mark.timeout(150)
class TestKillingAtRandom:
    def test_nothing_is_lost_doubled_or_reordered(self, fresh_home: Path):
        counted = soak.run(fresh_home, seed=SEED, kills=14, seconds=60, say=lambda *_, **__: None)
        assert counted["kills"] >= 14
        assert counted["moves"] > 100
        assert counted["duty_runs"] > 0
