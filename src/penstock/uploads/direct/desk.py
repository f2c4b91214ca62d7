"""What the use cases of direct uploads work with."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.kernel import error_codes
from penstock.kernel.clock import Clock
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.groupcommit import GroupCommit
from penstock.kernel.queue import Queue
from penstock.uploads.direct.ports import Bucket
from penstock.uploads.direct.settings import DirectSettings

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

    @cached_property
    def commits(self) -> GroupCommit:
        return GroupCommit(self.database)

    def open_bucket(self) -> Bucket:
        if self.bucket is None:
            raise PenstockError(error_codes.DIRECT_UPLOADS_OFF)
        return self.bucket

    async def close(self) -> None:
        if self.bucket is not None:
            await self.bucket.close()
