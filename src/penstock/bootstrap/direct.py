"""The desk of direct uploads, made of what the process has."""

from penstock.bootstrap.parts import Parts
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.ports import Bucket


def make_desk(parts: Parts) -> DirectDesk:
    return DirectDesk(
        parts.database, _bucket(parts), parts.settings.direct, parts.clock, parts.queue, owner=parts.worker_id
    )


def _bucket(parts: Parts) -> Bucket | None:
    if not parts.settings.direct.bucket_url:
        return None
    from penstock.uploads.direct.adapters import (  # type: ignore[import-not-found,unused-ignore]  # slow to import
        open_bucket,
    )

    opened: Bucket | None = open_bucket(parts.settings.direct, parts.clock)
    return opened
