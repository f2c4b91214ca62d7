"""The settings of the embedded bucket; its port is with the other ports."""

from datetime import timedelta
from pathlib import Path

from pydantic import ByteSize, Field
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup


class BucketSettings(SettingsGroup):
    """What `penstock bucket` holds and whom it tells."""

    model_config = SettingsConfigDict(env_prefix="BUCKET_")

    name: str = Field("penstock-uploads", pattern=r"^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$", description="Bucket's name")
    directory: Path | None = Field(
        None, description="Where objects and keys are; empty: `bucket` in the data directory"
    )
    public_url: str = Field(
        "", description="Address that sessions are given, when a proxy stands before; empty: as the request names us"
    )
    push_url: str = Field("", description="Who is told of new objects, as Pub/Sub would; empty: nobody")
    push_audience: str = Field("", description="`aud` of the tokens; empty: the address that is told")
    push_issuer: str = Field("", description="`iss` of the tokens; empty: this server's own address")
    push_attempts: int = Field(100, ge=1, description="After so many tries a notification is laid aside in `dead`")
    push_timeout: timedelta = Field(timedelta(seconds=10), gt=timedelta(0), description="How long one try may take")
    push_wait: timedelta = Field(timedelta(seconds=0.5), gt=timedelta(0), description="Before the second try; doubles")
    push_wait_most: timedelta = Field(timedelta(minutes=1), gt=timedelta(0), description="Up to so long between two")
    largest_object: ByteSize = Field(ByteSize(16 * 1024**3), gt=0, description="No object may be larger")
    most_sessions: int = Field(10_000, ge=1, description="Sessions open at the same time")
    session_share: float = Field(0.1, gt=0, le=1, description="Part of those sessions that one uploader may have")
    session_days: timedelta = Field(timedelta(days=7), gt=timedelta(0), description="How long a session may go on")
    idle_seconds: timedelta = Field(
        timedelta(seconds=60), gt=timedelta(0), description="A sender that is silent for so long is hung up on"
    )
    body_seconds: timedelta = Field(
        timedelta(seconds=60), gt=timedelta(0), description="A form or a description must be whole within so long"
    )
    drain_seconds: timedelta = Field(
        timedelta(seconds=10), gt=timedelta(0), description="The rest of a refused body is read for so long"
    )
    keep_free_bytes: ByteSize = Field(
        ByteSize(512 * 1024**2), ge=0, description="Nothing more is taken when less of the disk would be left"
    )
    quarantine_days: timedelta = Field(
        timedelta(days=14), gt=timedelta(0), description="Objects in the folder quarantine are kept for so long"
    )
    quarantine_bytes: ByteSize = Field(
        ByteSize(8 * 1024**3), ge=0, description="And no more of them than this, the newest"
    )
    sweep_seconds: timedelta = Field(
        timedelta(minutes=10), gt=timedelta(0), description="How often old sessions and quarantined objects are removed"
    )
    fault_switches: bool = Field(False, description="For tests: lets anybody order faults at /_/faults")
