"""A private PostgreSQL and Redis and any number of role processes, all of which can be killed and started again."""

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg
import redis

from penstock.embedded import EmbeddedPostgres, EmbeddedRedis
from penstock.kernel.migrations import migrate
from tests.support import nursery
from tests.support.nursery import Child

ROOT = Path(__file__).parents[2]
_NO_POWER_CUTS = {"fsync": "off"}  # the processes die here, never the machine: what was written is there

_TABLES = """
create table if not exists chaos_effects (id bigserial primary key, event_id bigint, entity text, step int);
create table if not exists chaos_heard (id bigserial primary key, event_id bigint, entity text, step int);
create table if not exists chaos_duty (id bigserial primary key, token bigint, owner text);
create table if not exists chaos_things (
  id text primary key, merchant_id text not null default 'm1', step int not null default 0,
  status text not null default 'ON')
"""


class Stage:
    """Everything a chaos run needs; `close` ends what was started, by pid."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.postgres = EmbeddedPostgres(home, settings=_NO_POWER_CUTS)
        self.redis = EmbeddedRedis(home)
        self.actors: dict[str, Any] = {}  # subprocess.Popen, or what behaves like it
        self.kills = 0

    def open(self) -> None:
        self.postgres.start()
        self.redis.start()
        migrate(self.postgres.url)
        with psycopg.connect(self.postgres.url) as connection:
            connection.execute(_TABLES)

    def close(self) -> None:
        self.end_actors()
        self.redis.stop()
        self.postgres.stop()

    def end_actors(self) -> None:
        for process in self.actors.values():
            process.kill()
            process.wait()
        self.actors.clear()

    module = "tests.chaos.actors"

    def start(self, name: str, *arguments: str, **environment: str) -> Child:
        """Start a role (see `module`) under a name; its output goes to a file of that name."""
        made = nursery.start(
            self.module, *arguments, log=self.home / f"{name}.log", env=self.environment(name) | environment
        )
        self.actors[name] = made
        return made

    def environment(self, name: str) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "PENSTOCK_DATABASE_URL": self.postgres.url,
            "PENSTOCK_REDIS_URL": self.redis.url,
            "PENSTOCK_STORE_URL": f"file://{self.home / 'store'}",
            "PENSTOCK_REDIS_PREFIX": "chaos",
            "PENSTOCK_JWT_SECRET": "chaos" * 8,
            "GW_WORKER_ID": name,
            "PENSTOCK_DELIVERY_LEASE_SECONDS": "3",
            "PENSTOCK_DELIVERY_FIRST_RETRY_SECONDS": "0.1",
            "PENSTOCK_DELIVERY_LAST_RETRY_SECONDS": "1",
            "PENSTOCK_DELIVERY_MAX_ATTEMPTS": "1000",
            "PENSTOCK_STALL_SECONDS": "2",
            "PENSTOCK_SCHEDULER_LEASE_SECONDS": "2",
            "PENSTOCK_SANDBOX_WORKERS": "1",
        }

    def kill(self, name: str) -> None:
        """SIGKILL: no handler runs, nothing is flushed."""
        self.actors[name].kill()
        self.actors[name].wait()
        self.kills += 1

    def pause(self, name: str) -> None:
        self.actors[name].send_signal(signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.actors[name].send_signal(signal.SIGCONT)

    def crash_postgres(self) -> None:
        self.postgres.kill()
        self.kills += 1
        self.postgres.start()

    def crash_redis(self, *, empty: bool = False) -> None:
        self.redis.kill()
        self.kills += 1
        if empty:
            for path in self.redis.data.rglob("*"):
                if path.is_file():
                    path.unlink()
        self.redis.start()

    def flush_redis(self) -> None:
        with redis.Redis.from_url(self.redis.url) as client:
            client.flushall()

    def cut_connections(self) -> None:
        """A network that drops everything for a moment: every open socket to both servers is closed."""
        with psycopg.connect(self.postgres.url, autocommit=True) as connection:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where pid <> pg_backend_pid() and application_name like 'penstock-%'"
            )
        with redis.Redis.from_url(self.redis.url) as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    def query(self, statement: str, values: Mapping[str, Any] | None = None) -> list[tuple]:
        with psycopg.connect(self.postgres.url) as connection:
            return connection.execute(statement, values).fetchall()

    def wait_for(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:.0f} s: {what}\n{self.logs()}")
            time.sleep(0.05)

    def logs(self, lines: int = 15) -> str:
        parts = []
        for name in self.actors:
            path = self.home / f"{name}.log"
            if path.exists():
                parts.append(f"--- {name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-lines:]))
        return "\n".join(parts)
