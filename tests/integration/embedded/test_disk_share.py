"""What `penstock up` lets one merchant's open direct uploads take of its disk."""

import pytest

from penstock.cli.up import environment
from penstock.embedded.home import Home
from penstock.embedded.runtime import Place, share_of_disk
from penstock.kernel.disk import free_bytes

GiB = 1 << 30
QUOTA = "DIRECT_OPEN_BYTES_PER_MERCHANT"


@pytest.fixture
def place(tmp_path):
    return Place(Home(tmp_path), "127.0.0.1", 8000, 8001, 8002, "postgresql://", "redis://", "s" * 32)


class TestShareOfTheDisk:
    @pytest.mark.parametrize(("free", "share"), [(40, 10), (3, 2), (9000, 256)])
    def test_it_is_a_quarter_of_what_is_free_but_one_large_file_at_the_least(self, free, share):
        assert share_of_disk(free * GiB) == share * GiB

    def test_the_roles_are_told(self, place, monkeypatch):
        monkeypatch.delenv(QUOTA, raising=False)
        told, expected = int(environment(place)[QUOTA]), share_of_disk(free_bytes(place.home.path))
        assert abs(told - expected) < GiB  # others write to the disk meanwhile

    def test_a_limit_that_the_settings_name_is_kept(self, place, monkeypatch):
        monkeypatch.setenv(QUOTA, "123456789")
        assert environment(place)[QUOTA] == "123456789"
