"""The settings of resumable uploads."""

from datetime import timedelta
from pathlib import Path

from pydantic import ByteSize, Field, PositiveInt
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup

GiB = 1024**3


class UploadSettings(SettingsGroup):
    """Where unfinished files lie, how large they may be and how long they are kept."""

    model_config = SettingsConfigDict(env_prefix="GW_")

    tus_upload_dir: Path | None = Field(
        None, description="Directory of uploads; all instances must see the same one. Default: uploads in PENSTOCK_HOME"
    )
    tus_max_size_gb: PositiveInt = Field(16, description="Largest upload, in GiB")
    tus_expiry_hours: timedelta = Field(
        timedelta(hours=6), description="An unfinished upload is removed so long after its last bytes"
    )
    tus_finished_hours: timedelta = Field(
        timedelta(hours=24), description="A finished upload that never became a job is removed after so long"
    )
    tus_chunk_timeout_sec: timedelta = Field(
        timedelta(seconds=60), description="A connection that sends nothing for so long is closed; its bytes are kept"
    )
    tus_commit_bytes: ByteSize = Field(
        ByteSize(64 * 1024**2), gt=0, description="A long request is synced and counted every so many bytes"
    )
    tus_commit_sec: timedelta = Field(
        timedelta(seconds=5), description="A long request is synced and counted at least so often"
    )
    tus_slots_per_merchant: PositiveInt = Field(200, description="Unfinished uploads that a merchant may have")
    tus_bytes_per_merchant: ByteSize = Field(
        ByteSize(256 * GiB),
        gt=0,
        description="Disk that a merchant's uploads may take until they become jobs or expire",
    )
    tus_free_space_percent: PositiveInt = Field(
        50, le=100, description="A merchant's uploads may also take no more than this share of what is free on the disk"
    )
    tus_keep_free_bytes: ByteSize = Field(
        ByteSize(512 * 1024**2),
        ge=0,
        description="Uploads leave so much of the disk to others: a database may be on it",
    )
    tus_public_url: str = Field(
        "", description="Address of this server as clients see it, for Location; empty: a path, which any proxy keeps"
    )

    @property
    def largest(self) -> int:
        return self.tus_max_size_gb * GiB
