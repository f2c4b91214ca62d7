"""What the use cases of direct uploads work with."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import structlog

from penstock.kernel import error_codes
from penstock.kernel.clock import Clock
from penstock.kernel.db import Database
from penstock.kernel.entering import Entering
from penstock.kernel.errors import Kind, PenstockError
from penstock.kernel.groupcommit import GroupCommit
from penstock.kernel.queue import Queue
from penstock.kernel.redis import RedisTrouble
from penstock.uploads.direct import quota, store
from penstock.uploads.direct.ports import Bucket
from penstock.uploads.direct.settings import DirectSettings

log = structlog.get_logger(__name__)
WAKE_UP = "direct_attend"  # the job of the queue

# What an upload becomes when it is complete, by the policy's word; the row is held while this runs.
Becoming = Callable[[Mapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True)
class DirectDesk:
    """`bucket` is None where direct uploads are off."""

    database: Database
    bucket: Bucket | None
    settings: DirectSettings
    clock: Clock
    queue: Queue
    owner: str = ""
    becomes: Mapping[str, Becoming] = field(default_factory=dict)
    open_other: Callable[[str], Bucket] | None = None  # by name, with the credentials of the one in use
    _others: dict[str, Bucket] = field(default_factory=dict)

    @cached_property
    def commits(self) -> GroupCommit:
        return GroupCommit(self.database)

    @cached_property
    def beginning(self) -> Entering:
        look_after = self.settings.look_after + self.settings.signed_url_ttl_seconds
        return store.beginning(self.database, look_after, quota.limits(self.settings))

    async def wake(self) -> None:
        """Something is due now. Workers look for themselves every second: a wake-up that is lost costs no more."""
        try:
            await self.queue.wake(WAKE_UP, once=WAKE_UP)
        except RedisTrouble:
            log.info("queue.wake_up_lost", job=WAKE_UP)

    def open_bucket(self) -> Bucket:
        if self.bucket is None:
            raise PenstockError(error_codes.DIRECT_UPLOADS_OFF)
        return self.bucket

    def bucket_of(self, name: str) -> Bucket:
        """The one in use, or one that was in use before. Whether that can still be reached only its answers tell."""
        bucket = self.open_bucket()
        if name == bucket.name:
            return bucket
        if self.open_other is None:
            raise PenstockError(error_codes.STORE_UNAVAILABLE, bucket=name, reason="another bucket is in use")
        if name not in self._others:
            self._others[name] = self.open_other(name)
        return self._others[name]

    def is_lost(self, name: str, failure: PenstockError) -> bool:
        """Whether it was said of a bucket that was in use before, and that cannot be reached: nobody waits for that."""
        return name != self.settings.bucket and failure.kind is Kind.UNAVAILABLE

    async def close(self) -> None:
        for bucket in (self.bucket, *self._others.values()):
            if bucket is not None:
                await bucket.close()
