"""What direct uploads become when they are complete: the word of a policy, and who does it."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from penstock.documents.from_bucket import become_job
from penstock.uploads.direct.desk import Becoming
from penstock.uploads.direct.ports import Bucket
from penstock.uploads.direct.probing import ProbeRoom, become_video

if TYPE_CHECKING:
    from penstock.bootstrap.parts import Parts


def becomings(parts: "Parts", bucket: Bucket) -> Mapping[str, Becoming]:
    """For DirectDesk, where there is a bucket; needs a role with a running sandbox."""
    room = ProbeRoom(parts.database, bucket, parts.settings.direct, parts.examiner.sandbox, parts.uploads.directory)
    return {"video": partial(become_video, room), "job": partial(become_job, parts.desk, bucket)}
