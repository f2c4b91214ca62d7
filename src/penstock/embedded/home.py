"""The data directory: one holder at a time, told apart by a lock that the kernel frees when the holder dies.

lock      who holds it (pid, host, since when, ports, children)     secret   signs tokens, mode 0600
pgdata/   PostgreSQL        redis/   Redis        store/   objects
postgres.key   password of the role that owns the database, mode 0600
bucket/   what phones send, and the keys for it   log/     one file per process
run/      sockets and metrics, nothing that must last
"""

import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil

from penstock.embedded.accounts import account_name, make_parents, reaching, server_account
from penstock.embedded.failure import EmbeddedFailure, cannot_use, disk_full, free_megabytes
from penstock.embedded.process import born_at, end_leftover

_MEGABYTES_FOR_A_NEW_CLUSTER = 160
_MEGABYTES_TO_START = 24
_OUR_NAMES = {
    "lock",
    "secret",
    "pgdata",
    "postgres",
    "redis",
    "store",
    "uploads",
    "bucket",
    "log",
    "run",
    "probe",
    "lost+found",
}


Born = tuple[int, float]  # pid and time of birth: together they name a process for ever


@dataclass(slots=True)
class Holder:
    """Who runs on a data directory, as the lock file says it."""

    port: int
    grpc_port: int
    address: str = "127.0.0.1"
    bucket_port: int | None = None
    pid: int = field(default_factory=os.getpid)
    host: str = field(default_factory=socket.gethostname)
    since: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    children: dict[str, Born] = field(default_factory=dict)  # for the next start, if we are killed

    @property
    def began(self) -> str:
        """`since`, as the clock on this wall shows it."""
        return datetime.fromisoformat(self.since).astimezone().strftime("%Y-%m-%d %H:%M:%S")


class Home:
    """Paths of one data directory, and the rules for using it."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().resolve()
        self.logs = self.path / "log"
        self.run = self.path / "run"
        self.store = self.path / "store"
        self.bucket = self.path / "bucket"
        self.metrics = self.run / "metrics"
        self._lock = self.path / "lock"
        self._secret = self.path / "secret"

    def refuse_unusable(self) -> None:
        """Say in a sentence why it cannot be used; nothing is changed or made."""
        try:
            existing = next(path for path in (self.path, *self.path.parents) if path.is_dir())
            self._refuse_a_stranger()
            reaching(server_account(self.path / "pgdata"), existing)
            _try_writing(existing)
            self._refuse_too_little_space()
        except OSError as failure:
            raise cannot_use(self.path, failure) from failure

    def prepare(self) -> None:
        """Make it, or say in a sentence why it cannot be used."""
        self.refuse_unusable()
        try:
            make_parents(self.path)
            self.path.mkdir(exist_ok=True)
            # Servers that root starts run as another account and must pass through to their own directories.
            passage = 0o711 if os.geteuid() == 0 else 0o700
            for directory, mode in ((self.path, passage), (self.run, passage), (self.logs, 0o700), (self.store, 0o700)):
                directory.mkdir(exist_ok=True)
                directory.chmod(mode)
        except OSError as failure:
            raise cannot_use(self.path, failure) from failure

    @contextlib.contextmanager
    def held(self, holder: Holder) -> Iterator["Holding"]:
        """Hold the directory for the length of the block; somebody else's hold is a failure that names them."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as failure:
            raise cannot_use(self._lock, failure) from failure
        try:
            self._take(descriptor)
            holding = Holding(descriptor, holder, self.last_holder())
            holding.write()
            try:
                yield holding
            finally:
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def holder(self) -> Holder | None:
        """Who runs here now; None when nobody does."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return self.last_holder()
        finally:
            os.close(descriptor)
        return None

    def last_holder(self) -> Holder | None:
        """What the lock file says, whether that process still lives or not."""
        try:
            return Holder(**json.loads(self._lock.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def secret(self) -> str:
        """The secret that signs tokens, made on first use."""
        try:
            if not self._secret.exists():
                self._write_secret(secrets.token_urlsafe(48))
            self._secret.chmod(0o600)
            return self._secret.read_text().strip()
        except OSError as failure:
            raise cannot_use(self._secret, failure) from failure

    def has_secret(self) -> bool:
        try:
            return self._secret.exists()
        except OSError as failure:
            raise cannot_use(self.path, failure) from failure

    def empty_metrics(self) -> None:
        """Each run counts from nothing: files of dead processes would be added up for ever."""
        shutil.rmtree(self.metrics, ignore_errors=True)
        self.metrics.mkdir(parents=True, mode=0o700)  # others could write into what we add up

    def _write_secret(self, secret: str) -> None:
        draft = self._secret.with_name(f"secret.new.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as target:
            target.write(secret + "\n")
            target.flush()
            os.fsync(descriptor)
        draft.rename(self._secret)

    def _take(self, descriptor: int) -> None:
        for attempt in range(20):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if attempt >= 4 and self.last_holder():  # a `doctor` looks for a moment only
                    break
                time.sleep(0.02)
            else:
                return
        raise self._somebody_else()

    def _somebody_else(self) -> EmbeddedFailure:
        other = self.last_holder()
        if other is None:
            return EmbeddedFailure(f"{self.path} is in use by another process.", f"{self.path} 正被其他进程使用。")
        return EmbeddedFailure(
            f"{self.path} is in use: `penstock up` runs there as process {other.pid} on {other.host} since"
            f" {other.began}, at http://{other.address}:{other.port}. Stop it, or choose another with --data.",
            f"{self.path} 正在使用中：主机 {other.host} 上的进程 {other.pid} 自 {other.began} 起运行 penstock up，"
            f"地址 http://{other.address}:{other.port}。请先停止它，或用 --data 指定其他目录。",
        )

    def _refuse_a_stranger(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory")
        owner = self.path.stat().st_uid
        if owner != os.geteuid():
            name = account_name(owner)
            raise EmbeddedFailure(
                f"{self.path} belongs to {name}: run Penstock as {name}, or choose another directory with --data.",
                f"{self.path} 属于 {name}：请以 {name} 身份运行，或用 --data 指定其他目录。",
            )
        if self._holds_other_things():
            raise EmbeddedFailure(
                f"{self.path} holds other things and is no data directory of Penstock: choose a new or empty one with"
                " --data.",
                f"{self.path} 中有其他内容，不是 Penstock 的数据目录：请用 --data 指定新目录或空目录。",
            )

    def _holds_other_things(self) -> bool:
        """We close the directory to others, so it must be ours alone; `lock` marks one that was ours before."""
        names = {path.name.split(".", 1)[0] for path in self.path.iterdir()}
        return "lock" not in names and not names <= _OUR_NAMES

    def _refuse_too_little_space(self) -> None:
        fresh = not (self.path / "pgdata" / "PG_VERSION").exists()
        if free_megabytes(self.path) < (_MEGABYTES_FOR_A_NEW_CLUSTER if fresh else _MEGABYTES_TO_START):
            raise disk_full(self.path)


def _try_writing(directory: Path) -> None:
    """Under a name that nobody can foresee: in a shared directory a link may lie under any other."""
    with tempfile.NamedTemporaryFile(dir=directory, prefix="probe.") as probe:
        probe.write(b"\0" * 4096)
        probe.flush()


class Holding:
    """Our hold on a data directory: what we tell others, and what the one before us left."""

    def __init__(self, descriptor: int, holder: Holder, before: Holder | None) -> None:
        self._descriptor = descriptor
        self.holder = holder
        self.before = before

    def note_child(self, name: str, pid: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            self.holder.children[name] = (pid, psutil.Process(pid).create_time())
            self.write()

    def end_leftovers(self) -> None:
        """Children of a holder that was killed end by themselves; the ones that did not are ended here."""
        for pid, born in self.before.children.values() if self.before else ():
            end_leftover(pid, signal.SIGTERM, is_ours=born_at(born))

    def write(self) -> None:
        text = json.dumps(asdict(self.holder)).encode()
        with contextlib.suppress(OSError):  # a full disk must not end a running system
            os.pwrite(self._descriptor, text.ljust(2048), 0)
