"""The job queue: ARQ over Redis. A message is a wake-up that carries ids; PostgreSQL holds the truth.

Losing every message costs seconds, never work: workers look at PostgreSQL themselves from time to time. Messages
are JSON, not ARQ's default pickle, so that whoever can write to Redis still cannot run code in a worker. Keys and
messages are ARQ's own; putting one in, and a worker's look for the next, are one trip to the server each.
"""

import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from importlib import resources
from typing import Any
from uuid import uuid4

from arq.connections import ArqRedis
from arq.constants import (
    expires_extra_ms,
    in_progress_key_prefix,
    job_key_prefix,
    result_key_prefix,
    retry_key_prefix,
)
from arq.jobs import serialize_job

from penstock.kernel import json
from penstock.kernel.redis import Keys, Redis, ScriptCall, run_scripts

_PREFIXES = (in_progress_key_prefix, job_key_prefix, retry_key_prefix)


class Queue:
    """Where wake-ups are put; `arq` is what a worker reads from."""

    def __init__(self, redis: Redis, keys: Keys, name: str = "default") -> None:
        self.name = keys.queue(name)
        self.arq = ArqRedis(
            redis.connection_pool,
            default_queue_name=self.name,
            job_serializer=json.dump_bytes,
            job_deserializer=json.loads,
        )
        self._put = self.arq.register_script(_script("queue.lua"))
        self._take = self.arq.register_script(_script("queue_take.lua"))

    def id_of(self, once: str) -> str:
        return f"{self.name}:{once}"

    async def wake(self, job: str, *ids: Any, once: str | None = None, after: timedelta | None = None) -> str | None:
        """Ask some worker to run `job`; with `once`, only if that wake-up is not already waiting or running.

        The job's id, or None when it was there already.
        """
        once = once or uuid4().hex
        [is_new] = await run_scripts(self.arq, self.waking(job, *ids, once=once, after=after))
        return self.id_of(once) if is_new else None

    def waking(
        self, job: str, *ids: Any, once: str, after: timedelta | None = None, since: datetime | None = None
    ) -> ScriptCall:
        """What `wake` runs, for who has more to tell Redis. `since` is when it began to wait, if before now."""
        job_id, now = self.id_of(once), _now()
        delay = int(after / timedelta(milliseconds=1)) if after else 0
        score = now + delay if since is None else min(now, int(since.timestamp() * 1000))
        body = serialize_job(job, ids, {}, None, now, serializer=json.dump_bytes)
        keys = (self.name, job_key_prefix + job_id, result_key_prefix + job_id)
        return ScriptCall(self._put, keys, (job_id, body, score, delay + expires_extra_ms))

    async def look(self, done: Iterable[str], want: int, lasting: timedelta) -> list[tuple[str, bytes]]:
        """Ids and bodies of up to `want` jobs that are now ours, for `lasting`; those that are `done` are gone."""
        limits = (_now(), int(lasting / timedelta(milliseconds=1)), want)
        [found] = await run_scripts(self.arq, ScriptCall(self._take, (self.name,), (*limits, *_PREFIXES, *done)))
        return [(job_id.decode(), body) for job_id, body in zip(found[::2], found[1::2], strict=True)]

    async def hand_back(self, job_id: str) -> None:
        """A job that we took and that another may do."""
        await self.arq.delete(in_progress_key_prefix + job_id)

    async def is_taken(self, once: str) -> bool:
        """Whether a worker runs it; true also of one that died with it, for as long as a job may last."""
        return bool(await self.arq.exists(in_progress_key_prefix + self.id_of(once)))

    async def forget(self, once: str) -> None:
        """Remove what a dead worker has left of a wake-up."""
        await self.look([self.id_of(once)], 0, timedelta())


def _script(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _now() -> int:
    return int(time.time() * 1000)
