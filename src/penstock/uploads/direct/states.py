"""The states of a direct upload, and of the video that one becomes."""

from enum import StrEnum

from penstock.kernel.statemachine import Machine, arrow


class DirectStatus(StrEnum):
    """Where a direct upload stands."""

    PENDING = "pending"  # announced; the phone may begin, or has begun where we cannot see it
    UPLOADING = "uploading"  # bytes are known to come: a bucket that takes parts tells us
    COMPLETED = "completed"  # the end: the object is in the bucket, and is what was announced
    FAILED = "failed"  # the object was not what was announced, or never came; the phone may begin again


class VideoStatus(StrEnum):
    """Where a video stands."""

    PENDING_UPLOAD = "pending_upload"  # there is no file yet
    PROCESSING = "processing"  # the file is there; the media pipeline works on it
    READY = "ready"  # it can be shown
    PUBLISHED = "published"  # the end: it is shown
    FAILED = "failed"  # the end: it cannot be shown


_OPEN = [DirectStatus.PENDING, DirectStatus.UPLOADING]

DIRECT_UPLOAD = Machine(
    entity="direct_upload",
    table="catalog.uploads",
    key="upload_id",
    merchant_column="merchant_id",
    states=DirectStatus,
    terminal=frozenset({DirectStatus.COMPLETED}),
    arrows=[
        arrow(None, DirectStatus.PENDING, "uploads"),
        arrow(DirectStatus.PENDING, DirectStatus.UPLOADING, "uploads"),
        arrow(_OPEN, DirectStatus.COMPLETED, "callback, reconciler"),
        arrow(_OPEN, DirectStatus.FAILED, "callback, reconciler"),
        arrow(DirectStatus.FAILED, DirectStatus.PENDING, "uploads"),  # begun again
        arrow(DirectStatus.FAILED, DirectStatus.COMPLETED, "callback, reconciler"),  # came late, but came right
    ],
)

_GOING = [VideoStatus.PENDING_UPLOAD, VideoStatus.PROCESSING, VideoStatus.READY]

VIDEO = Machine(
    entity="video",
    table="catalog.videos",
    key="video_id",
    merchant_column="merchant_id",
    states=VideoStatus,
    terminal=frozenset({VideoStatus.PUBLISHED, VideoStatus.FAILED}),
    arrows=[
        arrow(None, VideoStatus.PENDING_UPLOAD, "uploads, callback, reconciler"),
        arrow(VideoStatus.PENDING_UPLOAD, VideoStatus.PROCESSING, "callback, reconciler"),
        arrow(VideoStatus.PROCESSING, VideoStatus.READY, "media"),
        arrow(VideoStatus.READY, VideoStatus.PUBLISHED, "media"),
        arrow(_GOING, VideoStatus.FAILED, "media, probe"),
    ],
)
