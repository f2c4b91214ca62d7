"""Addresses: which lead into the public internet, and which somewhere else."""

import pytest

from penstock.kernel.addresses import is_public


class TestPublicAddresses:
    @pytest.mark.parametrize(
        "address",
        [
            "3fff::1", "3fff:fff::1", "192.0.0.8", "192.0.0.9", "168.63.129.16", "64:ff9b::a83f:8110",
            "::ffff:168.63.129.16",
            "10.0.0.1", "127.0.0.1", "169.254.169.254", "100.100.100.200", "224.0.0.1", "2001:db8::1", "::1", "fe80::1",
        ],
    )  # fmt: skip
    def test_what_no_stranger_may_be_reached_at_is_none(self, address):
        assert not is_public(address)

    @pytest.mark.parametrize(
        "address", ["8.8.8.8", "192.0.1.1", "168.63.129.17", "2606:4700::1111", "64:ff9b::808:808"]
    )
    def test_the_others_are(self, address):
        assert is_public(address)
