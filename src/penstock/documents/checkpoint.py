"""How far a job has come: written to PostgreSQL by its holder, copied to Redis for screens that ask often.

PostgreSQL is what counts; the copy may be lost or old and then only a screen is behind for a while. A resume does
not even need the checkpoint: it looks at the states of the pages.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import structlog

from penstock.documents import store_pages
from penstock.documents.pagework import Hold
from penstock.kernel import error_codes, failpoints, json
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.redis import Keys, Redis, RedisTrouble

log = structlog.get_logger(__name__)

_KEPT = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All pages up to `page` are done, or are not the machine's; they gave `skus` records."""

    page: int
    skus: int
    at: datetime | None  # None: nothing was written down yet


class Checkpoints:
    """Writes and reads them."""

    def __init__(self, database: Database, redis: Redis, keys: Keys) -> None:
        self._database = database
        self._redis = redis
        self._keys = keys

    async def save(self, hold: Hold) -> Checkpoint:
        """Raises LEASE_LOST if the job is no longer the holder's."""
        async with self._database.transaction() as tx:
            row = await store_pages.write_checkpoint(tx, hold.job_id, hold.worker_id, hold.token)
        if row is None:
            raise PenstockError(error_codes.LEASE_LOST, table="pdf_jobs", key=str(hold.job_id))
        failpoints.reach("checkpoint.saved")
        saved = Checkpoint(**row)
        await self._copy(hold.job_id, saved)
        return saved

    async def latest(self, job_id: UUID) -> Checkpoint:
        """The copy if there is one, else the original, which becomes the copy."""
        copied = await self._copied(job_id)
        if copied is not None:
            return copied
        async with self._database.transaction() as tx:
            row = await store_pages.read_checkpoint(tx, job_id)
        if row is None:
            raise PenstockError(error_codes.JOB_NOT_FOUND, job_id=str(job_id))
        found = Checkpoint(**row)
        await self._copy(job_id, found, only_if_missing=True)  # a newer one may have come meanwhile
        return found

    async def _copy(self, job_id: UUID, checkpoint: Checkpoint, *, only_if_missing: bool = False) -> None:
        try:
            key = self._keys.checkpoint(str(job_id))
            await self._redis.set(key, json.dump_bytes(checkpoint), ex=_KEPT, nx=only_if_missing)
        except RedisTrouble:
            log.info("checkpoint.not_copied", job=str(job_id))

    async def _copied(self, job_id: UUID) -> Checkpoint | None:
        try:
            packed: Any = await self._redis.get(self._keys.checkpoint(str(job_id)))
            return None if packed is None else msgspec.json.decode(packed, type=Checkpoint)
        except (*RedisTrouble, msgspec.MsgspecError):  # away, or not what we wrote
            return None
