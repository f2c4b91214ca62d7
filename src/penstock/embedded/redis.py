"""The private Redis: append-only file under the data directory, reached by a Unix socket only.

Nothing lives only in Redis, so a file that it can no longer read is put aside and it starts empty.
"""

import contextlib
import signal
import time
from pathlib import Path
from urllib.parse import quote

import redis

from penstock.embedded import process
from penstock.embedded.accounts import INSTALL_ELSEWHERE, make, own, reaching, server_account
from penstock.embedded.failure import EmbeddedFailure, cannot_use
from penstock.embedded.redis_programs import best_program
from penstock.embedded.sockets import leave, socket_directory

# Commands that nobody here needs, and that could load code, reach other servers or have known faults.
_REFUSED = "-@hyperloglog -debug -module -replicaof -slaveof -migrate -restore -sync -psync -cluster -failover"


class EmbeddedRedis(process.Process):
    """Start, find and stop the Redis of one data directory."""

    def __init__(self, home: Path) -> None:
        self.data = home / "redis"
        self.log = home / "log" / "redis.log"
        self._socket = socket_directory(home / "run" / "redis") / "redis.sock"
        self._account = server_account(self.data)
        self.put_aside: Path | None = None  # what the last start could not read

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self._socket))}"

    def start(self, *, seconds: float = 30) -> None:
        self.put_aside = None
        program = str(best_program().path)
        make(self.data.parent)
        self._account = reaching(self._account, Path(program).parent, INSTALL_ELSEWHERE)
        self._account = reaching(self._account, self.data.parent)
        try:
            self._start_once(program, seconds)
        except EmbeddedFailure:
            if not self._holds_unreadable_data():
                raise
            self.put_aside = self.data.rename(self.data.with_name(f"redis.unreadable-{time.time():.0f}"))
            self._start_once(program, seconds)

    def launch(self) -> None:
        self.start()

    def _start_once(self, program: str, seconds: float) -> None:
        try:
            own(self.data, self._account)
            own(self._socket.parent, self._account)
            self._clear_leftovers()
        except OSError as failure:
            raise cannot_use(self.data, failure) from failure
        self._process = process.spawn(
            self._command(program), log=self.log, account=self._account, environment=process.server_environment()
        )
        process.wait_until(self.ready, self._process, seconds=seconds, log=self.log)

    def tidy(self) -> None:
        leave(self._socket.parent)

    def ready(self) -> bool:
        client = redis.Redis.from_url(self.url, socket_connect_timeout=1, socket_timeout=1)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    def _holds_unreadable_data(self) -> bool:
        said = process.tail(self.log, lines=5)
        return any(sign in said for sign in ("Bad file format", "Can't handle RDB format", "Unexpected end of file"))

    def _command(self, program: str) -> list[str]:
        return [
            program, "--port", "0", "--unixsocket", str(self._socket), "--unixsocketperm", "700",
            "--dir", str(self.data), "--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
            "--pidfile", str(self._socket.with_suffix(".pid")), "--daemonize", "no",
            "--user", "default", "on", "nopass", "~*", "&*", "+@all", *_REFUSED.split(),
        ]  # fmt: skip

    def _clear_leftovers(self) -> None:
        pid_file = self._socket.with_suffix(".pid")
        if pid_file.exists():
            with contextlib.suppress(ValueError):
                pid = int(pid_file.read_text().strip())
                process.end_leftover(pid, signal.SIGTERM, is_ours=process.works_in(self.data))
            pid_file.unlink(missing_ok=True)
