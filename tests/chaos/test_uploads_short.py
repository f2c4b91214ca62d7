"""A short seeded run of the soak of uploads that `make chaos` does at length."""

from pathlib import Path

import pytest

from tests.chaos import upload_soak

SEED = 20261


@pytest.mark.timeout(150)
class TestUploadsUnderFire:
    def test_every_file_ends_as_it_was_sent(self, fresh_home: Path):
        counted = upload_soak.run(fresh_home, seed=SEED, uploads=16, seconds=120)
        assert counted["files"] == 16
        assert counted["servers killed"] >= 3
        assert counted["connections cut"] >= 3
