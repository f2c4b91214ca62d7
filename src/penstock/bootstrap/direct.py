"""The desk of direct uploads, made of what the process has."""

from functools import partial

from penstock.bootstrap.becoming import becomings
from penstock.bootstrap.parts import Parts
from penstock.uploads.direct.adapters import open_bucket, open_other
from penstock.uploads.direct.desk import Becoming, DirectDesk


def make_desk(parts: Parts) -> DirectDesk:
    settings, becomes = parts.settings.direct, dict[str, Becoming]()
    bucket = open_bucket(settings, parts.clock)
    desk = DirectDesk(
        parts.database, bucket, settings, parts.clock, parts.queue, parts.worker_id, becomes,
        partial(open_other, settings, parts.clock),
    )  # fmt: skip
    if bucket is not None:
        becomes |= becomings(parts, desk.bucket_of)
    return desk
