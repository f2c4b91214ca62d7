"""Which Redis is run: one whose known faults are mended, if any is installed."""

from pathlib import Path

import pytest
import redis

from penstock.embedded import EmbeddedRedis
from penstock.embedded.redis_programs import best_program, is_mended


def program(directory: Path, name: str, says: str) -> Path:
    """A program that tells a version, and no more."""
    made = directory / name
    made.write_text(f"#!/bin/sh\necho '{says}'\n")
    made.chmod(0o755)
    return made


class TestChoosing:
    def test_a_mended_one_on_the_path_is_taken_before_the_wheels(self, tmp_path):
        made = program(tmp_path, "valkey-server", "Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64")
        found = best_program(str(tmp_path))
        assert (found.path, found.name, found.version, found.is_mended) == (made, "Valkey", (9, 1, 2), True)

    @pytest.mark.parametrize("says", ["Redis server v=6.0.1 sha=0", "no server at all", ""])
    def test_an_older_one_or_something_else_on_the_path_is_not(self, tmp_path, says):
        program(tmp_path, "redis-server", says)
        assert best_program(str(tmp_path)).path.parent.name == "bin"

    @pytest.mark.parametrize(
        ("name", "version", "mended"),
        [
            ("Redis", (6, 2, 14), False),
            ("Redis", (6, 2, 20), True),
            ("Redis", (7, 0, 15), False),
            ("Redis", (7, 2, 10), False),
            ("Redis", (7, 2, 11), True),
            ("Redis", (8, 0, 3), False),
            ("Redis", (9, 0, 0), True),
            ("Valkey", (8, 1, 3), False),
            ("Valkey", (9, 1, 2), True),
        ],
    )
    def test_which_releases_are_mended(self, name, version, mended):
        assert is_mended(name, version) is mended


class TestRefusing:
    def test_commands_that_nobody_needs_are_closed(self, redis_server: EmbeddedRedis):
        client = redis.Redis.from_url(redis_server.url)
        for attack in (
            ["MODULE", "LOAD", "/tmp/x.so"],
            ["REPLICAOF", "127.0.0.1", "1"],
            ["DEBUG", "SLEEP", "0"],
            ["PFADD", "k", "v"],
            ["MIGRATE", "127.0.0.1", "1", "k", "0", "10"],
        ):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*attack)
        client.close()
