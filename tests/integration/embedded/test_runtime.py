"""`penstock up` from outside: refusals before anything starts, kills at any moment, clean stops.

The runtime, its servers and the command are real; the roles are small programs (tests/support/small_up.py).
"""

import os
import random
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from tests.support.places import mounted, needs_root, open_directory
from tests.support.programs import environment
from tests.support.standalone import until
from tests.support.terminals import Terminal
from tests.support.ups import Up

from penstock.embedded import EmbeddedFailure, EmbeddedPostgres, Home
from penstock.embedded.accounts import Account, server_account
from penstock.embedded.postgres import installed_versions

_TELLING = "import os, signal; print({**os.environ}, flush=True); signal.pause()"
_CRASHING = "import time; time.sleep(0.2); raise SystemExit('no such table')"
_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()"


@pytest.fixture(scope="module")
def running() -> Iterator[Up]:
    """One that several tests look at."""
    with open_directory() as directory:
        up = Up(directory / "data", "--child", _TELLING).ready()
        yield up
        assert up.end() == 0


class TestRunning:
    def test_it_comes_up_says_where_to_look_and_stops_in_order(self, used_home):
        up = Up(used_home).ready()
        assert up.end(signal.SIGINT) == 0
        for wanted in ("API docs", "gRPC", f"penstock sign-in --data {used_home}", str(used_home / "log")):
            assert wanted in up.said
        assert "code=" not in up.said  # a file or a service's log keeps what is printed
        stopped = up.said.partition("Stopping")[2]
        order = ["Scheduler", "Worker", "HTTP and gRPC", "Redis", "PostgreSQL"]
        assert sorted(order, key=stopped.index) == order
        assert Home(used_home).holder() is None

    def test_a_person_at_a_terminal_gets_a_link_that_signs_in(self, used_home):
        ports = ["--port", "0", "--grpc-port", "0", "--bucket-port", "0"]
        command = [sys.executable, "-m", "tests.support.small_up", "--data", str(used_home), *ports]
        terminal = Terminal(command, environment(FORCE_COLOR="1"), columns=200)
        try:
            terminal.until("Ctrl-C", seconds=60)
            assert "/sign-in?code=" in terminal.text
        finally:
            terminal.process.send_signal(signal.SIGTERM)
            assert terminal.end(seconds=40) == 0
            terminal.close()

    def test_it_speaks_chinese_and_warns_of_an_open_address(self, used_home):
        up = Up(used_home, "--host", "0.0.0.0", LANG="zh_CN.UTF-8").until("按 Ctrl-C 停止全部服务")
        assert "能访问本机的任何人都能访问 Penstock" in up.said
        assert up.address.startswith("http://127.0.0.1:")
        assert up.end() == 0

    def test_a_bucket_that_the_settings_name_is_kept(self, used_home):
        up = Up(used_home, "--child", _TELLING, DIRECT_BUCKET_URL="gs://another").ready()
        assert up.end() == 0
        told = (used_home / "log" / "worker.log").read_text()
        assert "'DIRECT_BUCKET_URL': 'gs://another'" in told
        assert "DIRECT_ENDPOINT" not in told
        assert "BUCKET_PUSH_URL" not in told
        assert not (used_home / "bucket").exists()

    def test_all_that_is_written_is_closed_to_others(self, running):
        """The data directory and its `run` let the servers' account pass when root starts them, and show nothing."""
        until(lambda: list((running.home / "redis").rglob("*.aof")))
        open_to_others = {
            str(path.relative_to(running.home)): oct(stat.S_IMODE(path.lstat().st_mode))
            for path in running.home.rglob("*")
            if not path.is_symlink() and "pgdata" not in path.parts and path.lstat().st_mode & 0o077
        }
        passage = {"run": "0o711"} if os.geteuid() == 0 else {}
        assert open_to_others == passage
        assert stat.S_IMODE((running.home / "pgdata").stat().st_mode) == 0o700

    def test_a_new_directory_lets_the_servers_pass_through_new_parents(self, directory):
        previous = os.umask(0o077)
        try:
            home = Home(directory / "new" / "deep" / "data")
            home.prepare()
        finally:
            os.umask(previous)
        account = server_account(home.path / "pgdata")
        assert account is None or account.can_enter(home.path)

    def test_children_are_told_where_they_are(self, running):
        home, log = running.home, running.home / "log" / "worker.log"
        until(lambda: "PENSTOCK_REDIS_URL" in log.read_text())
        told = log.read_text()
        for wanted in (
            f"'PENSTOCK_STORE_URL': '{(home / 'store').as_uri()}'",
            "'DIRECT_BUCKET_URL': 'gs://penstock-uploads'",
            f"'DIRECT_SERVICE_ACCOUNT_FILE': '{home}/bucket/service-account.json'",
            f"'BUCKET_PUSH_URL': '{running.address}/_/gcs/callback'",
            f"'PROMETHEUS_MULTIPROC_DIR': '{home}/run/metrics'",
            f"'PENSTOCK_JWT_SECRET': '{(home / 'secret').read_text().strip()}'",
            "'PENSTOCK_DATABASE_URL': 'postgresql://",
            "'PENSTOCK_REDIS_URL': 'unix://",
        ):
            assert wanted in told

    def test_servers_that_are_killed_come_back(self, running):
        for name in ("redis-server", "postgres"):
            ours = psutil.Process(running.process.pid).children()  # not theirs: a backend comes and goes
            next(found for found in ours if found.name() == name).kill()
        running.until("runs again").until("runs again")
        with psycopg.connect(EmbeddedPostgres(running.home).url) as connection:
            assert connection.execute("select 1").fetchone() == (1,)

    def test_a_crashing_child_is_tried_again_now_and_then_and_the_rest_goes_on(self, used_home):
        up = Up(used_home, "--child", _CRASHING).until("Worker keeps ending and is tried again every 15 s")
        assert up.said.count("starting it again") == 4
        assert "runs again" not in up.said
        assert "no such table" in (used_home / "log" / "worker.log").read_text()
        assert Home(used_home).holder() is not None
        assert up.end() == 0

    def test_a_second_request_does_not_wait_for_one_that_does_not_listen(self, used_home):
        up = Up(used_home, "--child", _DEAF).ready()
        up.process.send_signal(signal.SIGINT)
        up.until("Stopping")
        assert up.end(signal.SIGINT, seconds=10) == 0
        assert "Worker did not stop in time" in up.said

    def test_an_ordinary_user_needs_nothing_of_root(self, directory):
        own = directory / "own"
        own.mkdir()
        if os.geteuid() == 0:
            if not all(Account(65534, 65534).can_enter(path) for path in installed_versions().values()):
                pytest.skip("an ordinary user cannot enter the directory that Penstock is installed in")
            os.chown(own, 65534, 65534)
        up = Up(own / "data", as_ordinary_user="yes").ready()
        assert {found.uids().real for found in up.children()} == {own.stat().st_uid}
        assert up.end() == 0


class TestRefusing:
    def test_a_second_one_on_the_same_directory(self, running):
        second = Up(running.home)
        assert second.result() == 1
        assert f"process {running.process.pid}" in second.said
        assert running.address in second.said
        assert running.process.poll() is None

    @pytest.mark.parametrize("option", ["--port", "--grpc-port", "--bucket-port"])
    def test_a_taken_port_before_anything_is_started(self, directory, option):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = str(holder.getsockname()[1])
            up = Up(directory / "new", "--port", "0", "--grpc-port", "0", "--bucket-port", "0", option, port)
            assert up.result() == 1
        assert f"Port {port} on 127.0.0.1 is taken by" in up.said
        assert f"process {os.getpid()}" in up.said
        assert not (directory / "new" / "pgdata").exists()

    def test_one_port_for_both(self, directory):
        up = Up(directory / "new", "--port", "8765", "--grpc-port", "8765")
        assert up.result() == 1
        assert "cannot share port 8765" in up.said

    def test_a_database_of_a_newer_release(self, used_home):
        server = EmbeddedPostgres(used_home)
        server.start()
        with psycopg.connect(server.url) as connection:
            connection.execute("create table alembic_version (version_num varchar(32))")
            connection.execute("insert into alembic_version values ('9999')")
        server.stop()
        newer = Up(used_home)
        assert newer.result() == 1
        assert "is at revision 9999" in newer.said
        assert "Traceback" not in newer.said

    @needs_root
    def test_a_disk_that_fills_while_the_cluster_is_made(self, directory):
        with mounted(directory / "small", "size=20m,mode=755") as small:
            with pytest.raises(EmbeddedFailure, match=r"is full \(\d+ MB free\)"):
                EmbeddedPostgres(small).start()
            assert list(small.glob("pgdata*")) == []


class TestBeingKilled:
    def test_at_any_moment_the_children_end_and_the_next_start_recovers(self, directory):
        home: Path = directory / "new"  # so that the first kills fall into the making of the cluster
        moments = random.Random(int(os.environ.get("SEED", "7")))
        for _ in range(3):
            up = Up(home)
            time.sleep(moments.uniform(0.6, 2.0))
            left = up.children()
            up.end(signal.SIGKILL)
            assert psutil.wait_procs(left, timeout=15)[1] == []
        Up(home).ready().end(signal.SIGKILL)
        again = Up(home).ready()  # at once: what the last one left may still be ending
        assert again.end() == 0
