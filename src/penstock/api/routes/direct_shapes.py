"""Direct uploads and videos as the API shows them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from penstock.api import direct_examples as examples
from penstock.api.examples import shown
from penstock.api.parameters import Cursor, Merchant
from penstock.kernel.error_codes import REGISTRY
from penstock.kernel.errors import Language
from penstock.uploads.direct.opening import Opened, Wish
from penstock.uploads.direct.parts import MOST_AT_ONCE, MOST_PARTS, PartsOffer
from penstock.uploads.direct.queries import Wanted
from penstock.uploads.direct.states import DirectStatus, VideoStatus

_LARGEST = 2**63 - 1
Line = Annotated[str, Field(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]


class NewDirectUpload(BaseModel):
    """A file that is to be sent. The user and the merchant are the token's."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.WISH]})

    filename: Line = Field(description="For people; it is no part of the object's name")
    size_bytes: int = Field(0, ge=0, le=_LARGEST, description="0: not known yet")
    content_type: str = Field(min_length=1, max_length=200, pattern=r"^[\x20-\x7e]+$")
    content_md5_hex: str = Field(pattern=r"^[0-9A-Fa-f]{32}$", description="MD5 of the whole file, in hexadecimal")
    duration_seconds: int | None = Field(None, ge=0, le=2**31 - 1, description="Of a video, if it is known")
    video_id: UUID | None = Field(
        None, description="A video that waits for this file; none: one is made when it is there"
    )

    def wish(self) -> Wish:
        return Wish(
            self.filename, self.size_bytes, self.content_type, self.content_md5_hex, self.duration_seconds,
            str(self.video_id) if self.video_id else None,
        )  # fmt: skip


class OpenedUpload(BaseModel):
    """How to begin."""

    model_config = shown(examples.OPENED)

    upload_id: UUID
    status: DirectStatus
    bucket: str
    object_name: str
    already_completed: bool = Field(description="The file is there; there is nothing to send")
    resumable_init_url: str | None = Field(
        description="POST here with exactly these headers; the answer's `Location` takes the bytes. None: nothing is to"
        " be sent, or it goes in parts. Whoever has it can use it: keep it secret"
    )
    resumable_init_headers: dict[str, str]
    expires_at: datetime | None = Field(description="Until when a session can be begun")
    part_bytes: int | None = Field(description="It goes in parts of this size: ask for `parts`. None: in one piece")
    video_id: UUID | None


class WantedParts(BaseModel):
    """Which parts are to be sent."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.NUMBERS]})

    numbers: list[Annotated[int, Field(ge=1, le=MOST_PARTS)]] | None = Field(
        None, max_length=MOST_AT_ONCE, description="From 1; none: the next ones that are missing"
    )


class PresentPart(BaseModel):
    """One that the bucket has."""

    number: int
    size: int


class PartToSend(BaseModel):
    """PUT the part's bytes here, with exactly these headers."""

    number: int
    url: str = Field(description="Whoever has it can use it: keep it secret")
    headers: dict[str, str]
    expires_at: datetime


class Parts(BaseModel):
    """What is there, and where the next parts go."""

    model_config = shown(examples.PARTS)

    upload_id: UUID
    status: DirectStatus
    part_bytes: int = Field(description="Of every part but the last")
    total: int | None = Field(description="How many there are; none: the size is not known")
    present: list[PresentPart]
    addresses: list[PartToSend] = Field(description="None: nothing is missing, so complete it")


class DirectUpload(BaseModel):
    """A direct upload, as it stands."""

    model_config = shown(examples.UPLOAD)

    upload_id: UUID
    user_id: UUID
    merchant_id: str
    status: DirectStatus
    policy: str = Field(description="What files of its type become")
    bucket: str
    object_name: str
    filename: str
    content_type: str
    content_md5_hex: str = Field(description="As it was announced")
    expected_size: int = Field(description="As it was announced; 0: not known")
    size_bytes: int = Field(description="As the bucket says; 0: it is not there")
    md5_hash_hex: str | None = Field(description="As the bucket says")
    gcs_generation: str | None
    gcs_etag: str | None
    video_id: UUID | None
    job_id: UUID | None = Field(description="What a document became")
    error_code: str | None
    error_message: str | None = Field(description="What is wrong, by Accept-Language")
    created_at: datetime
    opened_at: datetime
    completed_at: datetime | None
    updated_at: datetime


class DirectUploads(BaseModel):
    """A part of the list."""

    model_config = shown(examples.UPLOADS)

    uploads: list[DirectUpload]
    next_cursor: str | None = Field(description="Ask with this for the next part; none: that was all")


class NewVideo(BaseModel):
    """A video whose file will come."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.NEW_VIDEO]})

    title: Line


class Report(BaseModel):
    """What the media pipeline has to say of a video."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [examples.READY]})

    status: Literal["ready", "published", "failed"]
    reason: Line | None = Field(None, description="Of a failure, for people")


class Video(BaseModel):
    """A video, as it stands."""

    model_config = shown(examples.VIDEO)

    video_id: UUID
    user_id: UUID
    merchant_id: str
    title: str
    status: VideoStatus
    raw_file_reference: str | None = Field(description="Where the file is, once it is there")
    content_type: str | None
    size_bytes: int | None
    declared_seconds: int | None = Field(description="What the phone said")
    duration_seconds: float | None = Field(description="What the file says; none: it has not been looked at")
    container: str | None = Field(description="Likewise")
    error_code: str | None
    error_message: str | None = Field(description="What is wrong, by Accept-Language")
    created_at: datetime
    updated_at: datetime


class Videos(BaseModel):
    """A part of the list."""

    model_config = shown(examples.VIDEOS)

    videos: list[Video]
    next_cursor: str | None


class ListedPart(BaseModel):
    """Which part of a list."""

    merchant: Merchant = None
    cursor: Cursor = None
    limit: int = Field(50, ge=1, le=200, description="How many at the most", examples=[50])

    def wanted(self) -> Wanted:
        return Wanted(self.merchant, self.cursor, self.limit)


def opened_upload(opened: Opened, part_bytes: int | None) -> OpenedUpload:
    row, start = opened.row, opened.start
    return OpenedUpload(
        upload_id=row["upload_id"], status=row["status"], bucket=row["bucket"], object_name=row["object_name"],
        already_completed=opened.already_completed, resumable_init_url=start.url if start else None,
        resumable_init_headers=dict(start.headers) if start else {}, expires_at=start.expires_at if start else None,
        video_id=row["video_id"], part_bytes=None if opened.already_completed else part_bytes,
    )  # fmt: skip


def parts_to_send(offer: PartsOffer) -> Parts:
    return Parts(
        upload_id=offer.row["upload_id"], status=offer.row["status"], part_bytes=offer.part_bytes, total=offer.total,
        present=[PresentPart(number=part.number, size=part.size) for part in offer.present],
        addresses=[
            PartToSend(
                number=each.number, url=each.start.url, headers=dict(each.start.headers),
                expires_at=each.start.expires_at,
            )
            for each in offer.addresses
        ],
    )  # fmt: skip


def direct_upload(row: Mapping[str, Any], language: Language) -> DirectUpload:
    told = {
        "filename": row["original_filename"], "content_md5_hex": row["content_md5"], "md5_hash_hex": row["md5_hash"],
        "error_message": _trouble(row, language),
    }  # fmt: skip
    return DirectUpload.model_validate({**row, **told})


def video(row: Mapping[str, Any], language: Language) -> Video:
    return Video.model_validate({**row, "error_message": _trouble(row, language)})


def _trouble(row: Mapping[str, Any], language: Language) -> str | None:
    """A code's own sentence; otherwise what was written down, such as the media pipeline's words."""
    known = REGISTRY.get(row["error_code"] or "")
    found: str | None = known.message.in_language(language) if known else row["error_message"]
    return found
