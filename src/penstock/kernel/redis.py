"""Redis: wake-ups, streams, gates, caches. It may be flushed at any moment; nothing lives only here.

All key patterns of the product are declared in `Keys`. The braces are hash tags: all keys of one subject
share a slot, so that a cluster can run scripts over them.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import redis.asyncio as aioredis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from penstock.kernel.cancellation import cancellations, raise_if_cancelled

Redis = aioredis.Redis
# A server that cannot write is as far away as one that does not answer.
RedisAway = (RedisConnectionError, RedisTimeoutError, OutOfMemoryError, ReadOnlyError, OSError)
# For wake-ups and copies, which may get lost, and for reads, which are tried again: whatever is wrong with it.
RedisTrouble = (RedisError, OSError)

_TAKES_NO_WRITES = re.compile(r"-(OOM|READONLY|MISCONF|NOREPLICAS) ")

__all__ = [
    "Keys",
    "Redis",
    "RedisAway",
    "RedisConnectionError",
    "RedisError",
    "RedisTrouble",
    "ScriptCall",
    "connect",
    "run_scripts",
    "running_script",
]


def connect(url: str, *, timeout_seconds: float = 2, max_connections: int = 64) -> Redis:
    """One client per process. A call either answers within the time-out or raises one of `RedisAway`."""
    options: dict[str, Any] = {
        "socket_timeout": timeout_seconds,
        "socket_connect_timeout": timeout_seconds,
        "max_connections": max_connections,
        "retry": Retry(NoBackoff(), 1),
        "retry_on_error": [RedisConnectionError],
        "health_check_interval": 15,
        # Naming itself to a server that hangs makes the client connect, check, connect ... without end.
        "lib_name": None,
        "lib_version": None,
    }
    pool: aioredis.ConnectionPool = aioredis.ConnectionPool.from_url(url, **options)
    pool.connection_class = type("Connection", (_Cancellable, pool.connection_class), {})
    return aioredis.Redis.from_pool(pool)


class _Cancellable(AbstractConnection):
    """Told to end while it sends, a task ends; see `cancellation`."""

    async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        since = cancellations()
        await super().send_packed_command(command, check_health)
        try:
            raise_if_cancelled(since)
        except asyncio.CancelledError:
            await self.disconnect(nowait=True)  # an answer comes that nobody reads
            raise


@contextmanager
def running_script() -> Iterator[None]:
    """Around every script that writes: a server that takes no writes is away, though a script says so in text only."""
    try:
        yield
    except ResponseError as refusal:
        if not isinstance(refusal, RedisAway) and _TAKES_NO_WRITES.search(str(refusal)):
            raise OutOfMemoryError(str(refusal)) from refusal
        raise


class ScriptCall(NamedTuple):
    """A registered script with what it is to be given."""

    script: AsyncScript
    keys: Sequence[str]
    arguments: Sequence[str | bytes | int]


async def run_scripts(redis: Redis, *calls: ScriptCall) -> list[Any]:
    """What each returned, in one trip to the server. A server that does not know one yet is told, and all run again:
    each must bear being run twice."""
    with running_script():
        try:
            return await _sent(redis, calls)
        except NoScriptError:
            for each in calls:
                await redis.script_load(each.script.script)
            return await _sent(redis, calls)


async def _sent(redis: Redis, calls: Sequence[ScriptCall]) -> list[Any]:
    if len(calls) == 1:
        return [await redis.evalsha(*_packed(calls[0]))]  # type: ignore[misc]
    pipe: Pipeline
    async with redis.pipeline(transaction=False) as pipe:
        for each in calls:
            pipe.evalsha(*_packed(each))
        return list(await pipe.execute())


def _packed(call: ScriptCall) -> tuple[Any, ...]:
    return (call.script.sha, len(call.keys), *call.keys, *call.arguments)


@dataclass(frozen=True, slots=True)
class Keys:
    """Every key pattern, under one prefix."""

    prefix: str = "penstock"

    def stream(self, topic: str) -> str:
        return f"{self.prefix}:sse:{{{topic}}}"

    def stream_seen(self, topic: str) -> str:
        return f"{self.prefix}:sse:{{{topic}}}:seen"

    def stream_nudge(self) -> str:
        return f"{self.prefix}:sse:nudge"

    def heartbeat(self, worker_id: str) -> str:
        return f"{self.prefix}:heartbeat:{{{worker_id}}}"

    def checkpoint(self, job_id: str) -> str:
        return f"{self.prefix}:checkpoint:{{{job_id}}}"

    def job_worker(self, job_id: str) -> str:
        return f"{self.prefix}:job_worker:{{{job_id}}}"

    def rate(self, key: str) -> str:
        return f"{self.prefix}:rate:{{{key}}}"

    def rate_origin(self) -> str:
        return f"{self.prefix}:rate:origin"

    def circuit(self, key: str) -> str:
        return f"{self.prefix}:circuit:{{{key}}}"

    def etl_task(self, prefix: str, task_id: int) -> str:
        return f"{self.prefix}:{prefix}task:{{{task_id}}}"

    def fewshot(self, template: str, category: str) -> str:
        return f"{self.prefix}:fewshot:{{{template}:{category}}}"

    def queue(self, name: str) -> str:
        return f"{self.prefix}:queue:{name}"
