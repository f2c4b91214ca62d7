"""A finished upload becomes something else: who takes it finds the file here and says so in its own transaction.

The bytes stay in the uploads directory until that transaction is committed; `Uploads.discard` removes them then,
and the hourly sweep if nobody did.
"""

from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from penstock.kernel import error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.statemachine import Step, move
from penstock.uploads.tus import store
from penstock.uploads.tus.states import UPLOAD, UploadStatus


@dataclass(frozen=True, slots=True)
class FinishedUpload:
    """A whole file, on disk. `job_id` says what it has become already, if anything."""

    upload_id: str
    merchant_id: str
    filename: str
    size: int
    path: Path
    job_id: UUID | None = None


async def finished_upload(tx: Tx, upload_id: str, merchant_id: str, directory: Path) -> FinishedUpload:
    """UPLOAD_NOT_FOUND also for another merchant's, UPLOAD_GONE, UPLOAD_UNFINISHED also for a part."""
    upload = store.present(await store.find(tx, upload_id), upload_id, merchant_id)
    if upload.status is UploadStatus.UPLOADING or upload.concat == "partial":
        raise PenstockError(
            error_codes.UPLOAD_UNFINISHED, upload_id=upload_id, offset=upload.received, length=upload.length
        )
    return FinishedUpload(
        upload_id, upload.merchant_id, upload.filename, upload.received, directory / upload_id, upload.job_id
    )


async def admit_upload(tx: Tx, upload_id: str, job_id: UUID, operator: str) -> None:
    """It is that job's now; STATE_CHANGED when it has expired, was cancelled or became another job meanwhile."""
    step = Step(
        upload_id, UploadStatus.FINISHED, UploadStatus.ADMITTED, by="gateway", trigger="admitted", operator=operator,
        payload={"job_id": str(job_id)}, changes={"job_id": job_id},
    )  # fmt: skip
    await move(tx, UPLOAD, step)
