"""A data directory is used by one holder at a time, and refused in a sentence when it cannot be used."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.places import mounted, needs_root, not_as_root
from tests.support.programs import start_python

from penstock.embedded import EmbeddedFailure, Holder, Home
from penstock.kernel.errors import Language

_HOLD = """
import sys
from pathlib import Path
from penstock.embedded import Holder, Home
home = Home(Path(sys.argv[1]))
with home.held(Holder(port=8123, grpc_port=8124)):
    print("held", flush=True)
    sys.stdin.read()
"""


def refusal(path: Path) -> str:
    with pytest.raises(EmbeddedFailure) as refused:
        Home(path).prepare()
    english, chinese = (refused.value.in_language(language) for language in (Language.EN, Language.ZH))
    assert english != chinese
    assert "--data" in english
    assert "--data" in chinese
    return english


@pytest.fixture
def other_holder(directory: Path):
    Home(directory).prepare()
    process = start_python("-c", _HOLD, str(directory), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


class TestPreparing:
    def test_a_missing_directory_is_made_with_its_parents(self, directory):
        Home(directory / "a" / "b").prepare()
        assert (directory / "a" / "b" / "log").is_dir()

    def test_strangers_cannot_look_inside(self, directory):
        home = Home(directory / "data")
        home.prepare()
        assert stat.S_IMODE(home.path.stat().st_mode) & 0o066 == 0
        for inside in (home.logs, home.store):
            assert stat.S_IMODE(inside.stat().st_mode) == 0o700

    def test_not_even_under_a_generous_umask(self, directory):
        before = os.umask(0)
        try:
            home = Home(directory / "data")
            home.prepare()
            home.empty_metrics()
        finally:
            os.umask(before)
        assert stat.S_IMODE(home.metrics.stat().st_mode) == 0o700

    def test_a_directory_that_holds_other_things_is_refused_and_left_as_it_was(self, directory):
        (directory / "thesis.txt").write_text("mine")
        assert "holds other things" in refusal(directory)
        assert [path.name for path in directory.iterdir()] == ["thesis.txt"]
        assert stat.S_IMODE(directory.stat().st_mode) == 0o755

    def test_what_a_killed_start_left_is_not_other_things(self, directory):
        for name in ("log", "pgdata.new-1", "secret.new.1", "probe.1", "redis.unreadable-1"):
            (directory / name).mkdir()
        Home(directory).prepare()

    def test_what_roles_that_were_run_alone_have_stored_is_ours(self, directory):
        for name in ("uploads", "bucket", "store"):
            (directory / name).mkdir()
        Home(directory).prepare()

    def test_the_try_at_writing_follows_no_link_that_a_stranger_laid(self, directory):
        victim = directory / "victim"
        victim.write_text("precious")
        shared = directory / "shared"
        shared.mkdir()
        (shared / f"probe.{os.getpid()}").symlink_to(victim)
        Home(shared / "data").refuse_unusable()
        assert victim.read_text() == "precious"

    def test_a_file_is_refused(self, directory):
        (directory / "file").write_text("")
        assert "is not a directory" in refusal(directory / "file")

    def test_a_path_below_a_file_is_refused(self, directory):
        (directory / "file").write_text("")
        assert "is not a directory" in refusal(directory / "file" / "data")

    def test_a_name_that_is_too_long_is_refused(self, directory):
        assert "not a usable path" in refusal(directory / ("n" * 300))

    @needs_root
    def test_a_read_only_file_system_is_refused(self, directory):
        with mounted(directory / "ro", "size=1m,ro") as path:
            assert "read-only" in refusal(path / "data")
            assert "read-only" in refusal(path)

    @needs_root
    def test_a_full_disk_is_refused(self, directory):
        with mounted(directory / "small", "size=4m,mode=755") as path:
            assert "is full (4 MB free)" in refusal(path / "data")

    @needs_root
    def test_somebody_elses_directory_is_refused(self, directory):
        theirs = directory / "theirs"
        theirs.mkdir()
        os.chown(theirs, 65534, 65534)
        assert "belongs to nobody" in refusal(theirs)

    @needs_root
    def test_a_parent_that_the_servers_account_cannot_enter_is_named(self, directory):
        """Without root's rights to lend, as in a container that was given none."""
        closed = directory / "closed"
        closed.mkdir(mode=0o700)
        code = "import pathlib, sys; from penstock.embedded import Home; Home(pathlib.Path(sys.argv[1])).prepare()"
        python = [sys.executable, "-c", code, str(closed / "data")]
        limited = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *python]
        done = subprocess.run(limited, capture_output=True, text=True, check=False)
        assert f"cannot enter {closed}," in done.stderr, done.stderr

    @not_as_root
    def test_a_directory_without_permission_is_refused(self, directory):
        directory.chmod(0o500)
        assert "cannot be written" in refusal(directory / "data")


class TestHolding:
    def test_the_second_is_told_who_holds_it(self, directory, other_holder):
        with pytest.raises(EmbeddedFailure) as refused, Home(directory).held(Holder(port=1, grpc_port=2)):
            pass
        assert f"process {other_holder.pid} on {os.uname().nodename}" in str(refused.value)
        assert "http://127.0.0.1:8123" in str(refused.value)

    def test_others_can_see_the_holder(self, directory, other_holder):
        holder = Home(directory).holder()
        assert holder is not None
        assert (holder.pid, holder.port, holder.grpc_port) == (other_holder.pid, 8123, 8124)

    def test_a_killed_holder_holds_nothing_and_is_known_to_the_next(self, directory, other_holder):
        other_holder.send_signal(signal.SIGKILL)
        other_holder.wait()
        assert Home(directory).holder() is None
        with Home(directory).held(Holder(port=1, grpc_port=2)) as holding:
            assert holding.before is not None
            assert holding.before.pid == other_holder.pid

    def test_after_a_clean_end_nobody_is_named(self, directory):
        home = Home(directory)
        home.prepare()
        with home.held(Holder(port=1, grpc_port=2)):
            assert home.last_holder() is not None
        assert home.last_holder() is None
        assert home.holder() is None

    def test_a_garbled_lock_file_is_no_obstacle(self, directory):
        home = Home(directory)
        home.prepare()
        (directory / "lock").write_bytes(b'{"pid": \xff')
        with home.held(Holder(port=1, grpc_port=2)) as holding:
            assert holding.before is None

    def test_a_child_that_outlived_a_killed_holder_is_ended(self, directory):
        home = Home(directory)
        home.prepare()
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        with home.held(Holder(port=1, grpc_port=2)) as holding:
            holding.note_child("worker", child.pid)
            left = (directory / "lock").read_text()
        (directory / "lock").write_text(left)
        with home.held(Holder(port=1, grpc_port=2)) as holding:
            holding.end_leftovers()
        child.wait(5)  # raises when it still runs

    def test_a_stranger_with_the_number_of_an_old_child_is_left_alone(self, directory):
        home = Home(directory)
        home.prepare()
        stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        before = Holder(port=1, grpc_port=2, children={"worker": (stranger.pid, 12345.0)})
        with home.held(before):
            left = (directory / "lock").read_text()
        (directory / "lock").write_text(left)
        with home.held(Holder(port=1, grpc_port=2)) as holding:
            holding.end_leftovers()
        assert stranger.poll() is None
        stranger.kill()
        stranger.wait()


class TestTheSecret:
    def test_it_is_made_once_and_only_its_owner_reads_it(self, directory):
        home = Home(directory)
        secret = home.secret()
        assert len(secret) >= 43
        assert home.secret() == secret
        assert stat.S_IMODE((directory / "secret").stat().st_mode) == 0o600

    def test_permissions_that_were_loosened_are_tightened(self, directory):
        home = Home(directory)
        home.secret()
        (directory / "secret").chmod(0o644)
        home.secret()
        assert stat.S_IMODE((directory / "secret").stat().st_mode) == 0o600
