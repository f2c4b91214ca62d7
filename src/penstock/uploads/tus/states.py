"""The states of an upload."""

from enum import StrEnum

from penstock.kernel.statemachine import Machine, arrow


class UploadStatus(StrEnum):
    """Where an upload stands."""

    UPLOADING = "UPLOADING"  # bytes are missing
    FINISHED = "FINISHED"  # all bytes are on disk; it can become a job
    ADMITTED = "ADMITTED"  # the end: it became a job, which has the file now
    EXPIRED = "EXPIRED"  # the end: nobody went on with it, the bytes are gone
    CANCELLED = "CANCELLED"  # the end: the client ended it, the bytes are gone


_OPEN = [UploadStatus.UPLOADING, UploadStatus.FINISHED]

UPLOAD = Machine(
    entity="upload",
    table="tus_uploads",
    key="upload_id",
    merchant_column="merchant_id",
    states=UploadStatus,
    terminal=frozenset({UploadStatus.ADMITTED, UploadStatus.EXPIRED, UploadStatus.CANCELLED}),
    arrows=[
        arrow(None, UploadStatus.UPLOADING, "uploads"),
        arrow(None, UploadStatus.FINISHED, "uploads"),
        arrow(UploadStatus.UPLOADING, UploadStatus.FINISHED, "uploads"),
        arrow(UploadStatus.FINISHED, UploadStatus.ADMITTED, "gateway"),
        arrow(_OPEN, UploadStatus.EXPIRED, "scheduler"),
        arrow(_OPEN, UploadStatus.CANCELLED, "uploads"),
    ],
)
