"""The desk of direct uploads, made of what the process has."""

from penstock.bootstrap.becoming import becomings
from penstock.bootstrap.parts import Parts
from penstock.uploads.direct.adapters import open_bucket
from penstock.uploads.direct.desk import DirectDesk


def make_desk(parts: Parts) -> DirectDesk:
    bucket = open_bucket(parts.settings.direct, parts.clock)
    return DirectDesk(
        parts.database, bucket, parts.settings.direct, parts.clock, parts.queue, parts.worker_id,
        becomings(parts, bucket) if bucket else {},
    )  # fmt: skip
