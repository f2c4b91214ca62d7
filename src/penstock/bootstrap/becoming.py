"""What direct uploads become when they are complete: the word of a policy, and who does it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.documents.from_bucket import become_job
from penstock.uploads.direct.desk import Becoming
from penstock.uploads.direct.ports import Bucket
from penstock.uploads.direct.probing import ProbeRoom, become_video

if TYPE_CHECKING:
    from penstock.bootstrap.parts import Parts


def becomings(parts: "Parts", bucket_of: Callable[[str], Bucket]) -> Mapping[str, Becoming]:
    """For DirectDesk, where there is a bucket; needs a role with a running sandbox."""

    async def video(row: Mapping[str, Any]) -> None:
        bucket, directory = bucket_of(row["bucket"]), parts.uploads.directory
        room = ProbeRoom(parts.database, bucket, parts.settings.direct, parts.examiner.sandbox, directory)
        await become_video(room, row)

    async def job(row: Mapping[str, Any]) -> None:
        await become_job(parts.desk, bucket_of(row["bucket"]), row)

    return {"video": video, "job": job}
