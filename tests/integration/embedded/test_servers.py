"""The private servers start again after anything, and never on data that is not theirs to touch."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis
from tests.support.places import needs_root
from tests.support.programs import start_python

from penstock.embedded import EmbeddedFailure, EmbeddedPostgres, EmbeddedRedis
from penstock.embedded.accounts import server_account
from penstock.embedded.postgres import installed_versions
from penstock.embedded.sockets import socket_directory
from penstock.kernel.migrations import migrate

_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "shared_buffers": "16MB"}


@contextlib.contextmanager
def running(server: EmbeddedPostgres | EmbeddedRedis) -> Iterator[None]:
    server.start()
    try:
        yield
    finally:
        server.stop()


def postgres(home: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(home, settings=_FAST)


def ask(server: EmbeddedPostgres, query: str):
    with psycopg.connect(server.url, autocommit=True) as connection:
        cursor = connection.execute(query)
        return cursor.fetchone() if cursor.description else None


def programs_of(home: Path) -> Path:
    return installed_versions()[int((home / "pgdata" / "PG_VERSION").read_text())]


@pytest.fixture(scope="module")
def cluster(home: Path) -> Path:
    """One cluster for the tests of this file that do not care about a fresh one."""
    made = home / "cluster"
    made.mkdir()
    made.chmod(0o755)
    with running(postgres(made)):
        pass
    return made


class TestStartingPostgres:
    def test_letters_of_all_languages_are_letters(self, cluster):
        with running(server := postgres(cluster)):
            assert ask(server, "select lower('ÄÖ'), upper('é'), length('管道')") == ("äö", "É", 2)

    def test_it_listens_on_no_port(self, cluster):
        with running(server := postgres(cluster)):
            listening = [found.laddr for found in psutil.Process(server.pid).net_connections("inet")]
            assert listening == []

    @pytest.mark.parametrize("name", ["with space, comma 'quote'", "数据目录", "deep/" * 20 + "end"])
    def test_a_directory_of_any_name_will_do(self, directory, name):
        home = directory / name
        home.mkdir(parents=True)
        with running(first := postgres(home)), running(second := EmbeddedRedis(home)):
            assert ask(first, "select 1") == (1,)
            assert redis.Redis.from_url(second.url).ping()
        for place in ("pg", "redis"):
            stand_in = socket_directory(home / "run" / place)
            assert stand_in.is_relative_to(home) or not stand_in.exists(), "nothing is left outside the data directory"

    def test_a_half_made_cluster_is_made_anew(self, directory):
        half = directory / "pgdata.new-12345"
        half.mkdir()
        (half / "PG_VERSION").write_text("18")
        with running(server := postgres(directory)):
            assert ask(server, "select 1") == (1,)
        assert not half.exists()

    def test_a_pid_file_that_names_a_stranger_is_no_obstacle(self, cluster):
        stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        pid_file = cluster / "pgdata" / "postmaster.pid"
        pid_file.write_text(f"{stranger.pid}\n{cluster}/pgdata\n1\n5432\n\n\n\nready\n")
        with running(server := postgres(cluster)):
            assert ask(server, "select 1") == (1,)
        assert stranger.poll() is None
        stranger.kill()
        stranger.wait()

    def test_a_garbled_pid_file_is_no_obstacle(self, cluster):
        (cluster / "pgdata" / "postmaster.pid").write_text("\x00\x00")
        with running(server := postgres(cluster)):
            assert ask(server, "select 1") == (1,)

    def test_a_server_that_outlived_its_supervisor_is_ended_first(self, cluster):
        left = postgres(cluster)
        left.start()
        with running(server := postgres(cluster)):
            assert server.pid != left.pid
            assert not psutil.pid_exists(left.pid) or psutil.Process(left.pid).status() == psutil.STATUS_ZOMBIE
        left.stop()

    def test_what_was_committed_survives_a_kill_under_load(self, cluster):
        server = EmbeddedPostgres(cluster, settings={"shared_buffers": "16MB"})
        server.start()
        ask(server, "create table if not exists kept (n int)")
        ask(server, "insert into kept values (1)")
        busy = psycopg.connect(server.url)
        busy.pgconn.send_query(b"select count(*) from generate_series(1, 100000000)")
        server.kill()
        with running(server):
            assert ask(server, "select count(*) from kept") == (1,)
        busy.close()

    def test_data_of_an_unknown_version_is_refused(self, directory):
        (directory / "pgdata").mkdir()
        (directory / "pgdata" / "PG_VERSION").write_text("99\n")
        with pytest.raises(EmbeddedFailure, match=r"made by PostgreSQL 99, and this installation carries 16, 18"):
            postgres(directory).start()

    @needs_root
    def test_data_keeps_its_owner(self, directory):
        (directory / "pgdata").mkdir()
        os.chown(directory / "pgdata", 65534, 65534)
        with running(server := postgres(directory)):
            assert psutil.Process(server.pid).uids().real == 65534

    def test_it_is_not_told_our_secrets(self, cluster, monkeypatch):
        monkeypatch.setenv("PENSTOCK_JWT_SECRET", "hunter2")
        with running(server := postgres(cluster)):
            assert "hunter2" not in psutil.Process(server.pid).environ().values()

    @needs_root
    def test_a_link_that_the_servers_account_laid_gives_it_nothing_of_ours(self, directory):
        """Whatever else runs as that account could have laid it, in the temporary directory."""
        home, ours = directory / ("long" * 40), directory / "ours"
        home.mkdir()
        ours.mkdir()
        trap = socket_directory(home / "run" / "pg")
        trap.symlink_to(ours)
        account = server_account(home / "pgdata")
        os.chown(trap, account.uid, account.gid, follow_symlinks=False)
        try:
            with pytest.raises(EmbeddedFailure):
                postgres(home).start()
            assert ours.stat().st_uid == 0
        finally:
            trap.unlink()

    @needs_root
    def test_a_socket_directory_that_a_stranger_made_first_is_refused(self, directory):
        home = directory / ("long" * 40)
        home.mkdir()
        trap = socket_directory(home / "run" / "pg")
        trap.mkdir()
        os.chown(trap, 4321, 4321)
        try:
            with pytest.raises(EmbeddedFailure, match="cannot trust it"):
                postgres(home).start()
        finally:
            trap.rmdir()


@pytest.fixture(scope="class")
def server(cluster: Path) -> Iterator[EmbeddedPostgres]:
    with running(made := postgres(cluster)):
        yield made


class TestTheOwner:
    """Everything connects as the owner of the database; the superuser cannot sign in at all."""

    def test_it_is_no_superuser_and_runs_no_programs(self, server):
        rights = "rolsuper, rolcreaterole, rolreplication, rolbypassrls"
        assert ask(server, f"select {rights} from pg_roles where rolname = current_user") == (False,) * 4
        for attack in ("copy (select 1) to program 'id'", "select pg_read_file('/etc/passwd')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                ask(server, attack)

    @pytest.mark.parametrize("who", ["postgres:", "postgres:guess", "penstock:", "penstock:guess"])
    def test_nobody_else_signs_in(self, server, who):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(f"postgresql://{who}@{server.url.partition('@')[2]}")

    def test_it_can_make_and_migrate_everything(self, server):
        migrate(server.url)
        owners = ask(server, "select array_agg(distinct pg_get_userbyid(relowner)) from pg_class where oid > 16384")
        assert owners == (["penstock"],)

    def test_the_password_is_closed_to_others(self, server, cluster):
        assert stat.S_IMODE((cluster / "postgres.key").stat().st_mode) == 0o600

    def test_data_that_a_superuser_made_is_handed_over(self, directory):
        """As of a version before: no such role, tables of the superuser, entry without a password."""
        with running(server := postgres(directory)):
            migrate(server.url)
            ask(server, "insert into audit_log (actor, role, action) values ('a', 'admin', 'kept')")
        back = ["reassign owned by penstock to postgres", "drop owned by penstock", "drop role penstock"]
        server._owner._run_alone(server._command(programs_of(directory)), server._account, back)
        (directory / "postgres.key").unlink()
        with running(server := postgres(directory)):
            assert ask(server, "select action from audit_log") == ("kept",)
            assert ask(server, "insert into audit_log (actor, role, action) values ('b', 'admin', 'new') returning id")
            owner = "select pg_get_userbyid(relowner) from pg_class where relname = 'audit_log'"
            assert ask(server, owner) == ("penstock",)
            assert ask(server, "select pg_get_userbyid(nspowner) from pg_namespace where nspname = 'catalog'") == (
                "penstock",
            )
            migrate(server.url)


class TestStartingRedis:
    def test_what_was_written_is_there_after_a_kill(self, directory):
        server = EmbeddedRedis(directory)
        server.start()
        redis.Redis.from_url(server.url).set("kept", "1")
        time.sleep(0.05)  # one turn of its loop: the write reaches the kernel
        server.kill()
        with running(server):
            assert redis.Redis.from_url(server.url).get("kept") == b"1"
        assert server.put_aside is None

    def test_a_file_it_cannot_read_is_put_aside(self, directory):
        with running(server := EmbeddedRedis(directory)):
            redis.Redis.from_url(server.url).set("old", "1")
        written = [file for file in (directory / "redis").rglob("*.aof") if ".base." not in file.name]
        for file in written:  # from Redis 7 on, it lies in a directory of its own
            file.write_bytes(b"*3\r\n$3\r\nSET\r\nrubbish, more rubbish\r\n" * 20)
        with running(server):
            assert redis.Redis.from_url(server.url).dbsize() == 0
        assert server.put_aside is not None
        assert list(server.put_aside.rglob("*.aof"))

    def test_a_server_that_outlived_its_supervisor_is_ended_first(self, directory):
        left = EmbeddedRedis(directory)
        left.start()
        with running(server := EmbeddedRedis(directory)):
            assert server.ready()
            assert not psutil.pid_exists(left.pid) or psutil.Process(left.pid).status() == psutil.STATUS_ZOMBIE
        left.stop()

    def test_it_runs_without_the_supervisors_privileges(self, directory):
        with running(server := EmbeddedRedis(directory)):
            assert psutil.Process(server.pid).uids().real != 0


class TestDyingWithTheSupervisor:
    @pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the next start ends what was left")
    def test_servers_stop_by_themselves_when_it_is_killed(self, cluster):
        code = (
            "import sys; from pathlib import Path; from penstock.embedded import *;"
            "p = EmbeddedPostgres(Path(sys.argv[1])); p.start(); r = EmbeddedRedis(Path(sys.argv[1])); r.start();"
            "print(p.pid, r.pid, flush=True); sys.stdin.read()"
        )
        supervisor = start_python("-c", code, str(cluster), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        servers = [psutil.Process(int(pid)) for pid in supervisor.stdout.readline().split()]
        assert len(servers) == 2
        supervisor.send_signal(signal.SIGKILL)
        supervisor.communicate()
        assert psutil.wait_procs(servers, timeout=10)[1] == []
