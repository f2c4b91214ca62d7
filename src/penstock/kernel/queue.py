"""The job queue: ARQ over Redis. A message is a wake-up that carries ids; PostgreSQL holds the truth.

Losing every message costs seconds, never work: workers look at PostgreSQL themselves from time to time. Messages
are JSON, not ARQ's default pickle, so that whoever can write to Redis still cannot run code in a worker.
"""

from datetime import timedelta
from typing import Any

from arq.connections import ArqRedis
from arq.constants import in_progress_key_prefix, job_key_prefix, retry_key_prefix

from penstock.kernel import json
from penstock.kernel.redis import Keys, Redis


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

    def id_of(self, once: str) -> str:
        return f"{self.name}:{once}"

    async def wake(self, job: str, *ids: Any, once: str | None = None, after: timedelta | None = None) -> str | None:
        """Ask some worker to run `job`; with `once`, only if that wake-up is not already waiting or running.

        The job's id, or None when it was there already.
        """
        job_id = self.id_of(once) if once else None
        asked = await self.arq.enqueue_job(job, *ids, _job_id=job_id, _defer_by=after)
        return None if asked is None else asked.job_id

    async def is_taken(self, once: str) -> bool:
        """Whether a worker runs it; true also of one that died with it, for as long as a job may last."""
        return bool(await self.arq.exists(in_progress_key_prefix + self.id_of(once)))

    async def forget(self, once: str) -> None:
        """Remove what a dead worker has left of a wake-up."""
        job_id = self.id_of(once)
        async with self.arq.pipeline(transaction=True) as pipe:
            pipe.zrem(self.name, job_id)
            pipe.delete(*(prefix + job_id for prefix in (in_progress_key_prefix, retry_key_prefix, job_key_prefix)))
            await pipe.execute()
