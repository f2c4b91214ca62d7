"""The settings of direct uploads: which bucket, what it may take, whose notifications are believed."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    PositiveInt,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup

GiB = 1024**3
ASIDE = "quarantine"  # the folder of objects that are not what was announced
_TYPE = r"^[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]*$"  # without parameters, which do not count
_GOOGLE_KEYS = "https://www.googleapis.com/oauth2/v3/certs"
_GOOGLE = ("https://accounts.google.com", "accounts.google.com")


class Policy(BaseModel):
    """What files of some types may be, and what they become."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,30}$")
    folder: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,30}$", description="First part of the object's name")
    content_types: tuple[Annotated[str, StringConstraints(to_lower=True, pattern=_TYPE)], ...] = Field(min_length=1)
    becomes: Literal["video", "job", "nothing"]
    largest: ByteSize = Field(ByteSize(2 * GiB), gt=0)
    longest_seconds: PositiveInt | None = None


VIDEO_POLICY = Policy(
    name="video", folder="videos", content_types=("video/mp4", "video/quicktime"), becomes="video", longest_seconds=300
)
PDF_POLICY = Policy(name="pdf", folder="pdfs", content_types=("application/pdf",), becomes="job")


class DirectSettings(SettingsGroup):
    """Direct uploads are off while no bucket is named; `penstock up` names its own."""

    model_config = SettingsConfigDict(env_prefix="DIRECT_")

    bucket_url: str = Field("", description="Where phones send files: gs://bucket or s3://bucket; empty: nowhere")
    endpoint: str = Field("", description="Address of the bucket's service as phones see it; empty: Google's or AWS's")
    service_account_file: Path | None = Field(
        None, description="Key file that signs for gs://; without one IAM signs, in the name of signer_service_account"
    )
    signer_service_account: str = Field("", description="E-mail of the account in whose name IAM signs")
    iam_endpoint: str = Field("https://iamcredentials.googleapis.com", description="Address of the IAM that signs")
    s3_region: str = Field("us-east-1", description="Region of s3://")
    s3_access_key: SecretStr = Field(SecretStr(""), description="Empty: as boto3 finds it (environment, role)")
    s3_secret_key: SecretStr = Field(SecretStr(""), description="Belongs to s3_access_key")
    part_bytes: ByteSize = Field(ByteSize(8 * 1024**2), ge=5 * 1024**2, description="Size of a part on s3://")
    signed_url_ttl_seconds: timedelta = Field(
        timedelta(minutes=15), gt=timedelta(0), le=timedelta(days=7), description="How long a signed address works"
    )
    session_days: timedelta = Field(timedelta(days=7), gt=timedelta(0), description="How long a session may go on")
    late_days: timedelta = Field(
        timedelta(0), ge=timedelta(0), description="How much later than that an upload is given up"
    )
    open_per_merchant: PositiveInt = Field(
        10_000, description="Uploads that a merchant may have open: not complete, not failed, not given up"
    )
    open_bytes_per_merchant: ByteSize = Field(
        ByteSize(256 * GiB),
        gt=0,
        description="What they may announce together; one without a size counts as the largest file that is taken",
    )
    policies: tuple[Policy, ...] = Field(
        (VIDEO_POLICY, PDF_POLICY), min_length=1, description="What is taken and what becomes of it, as JSON"
    )
    callback_audience: str = Field("", description="Required `aud` of notifications; empty: none is believed")
    callback_email: str = Field("", description="Required `email` of notifications; empty: none is believed")
    callback_issuers: tuple[str, ...] = Field(_GOOGLE, min_length=1, description="Accepted `iss` of notifications")
    callback_jwks_url: str = Field(_GOOGLE_KEYS, description="Where the keys are published that sign notifications")
    callback_leeway: timedelta = Field(
        timedelta(seconds=60), ge=timedelta(0), le=timedelta(minutes=5), description="Clock difference that is forgiven"
    )
    look_after: timedelta = Field(
        timedelta(minutes=2), gt=timedelta(0), description="An upload without news is looked for in the bucket so late"
    )
    look_at_most: timedelta = Field(
        timedelta(hours=1), gt=timedelta(0), description="Looks become rarer, up to so long between two"
    )
    lease_seconds: timedelta = Field(
        timedelta(seconds=60), gt=timedelta(0), description="A worker that is silent for so long has lost its upload"
    )
    attend_at_once: int = Field(8, ge=1, le=100, description="Uploads that one worker looks after at a time")
    dead_messages_days: timedelta = Field(
        timedelta(days=30), gt=timedelta(0), description="How long notifications that nobody understood are kept"
    )
    dead_messages_most: int = Field(100_000, ge=0, description="How many of them are kept, the newest")

    @property
    def patience(self) -> timedelta:
        """From the opening of an upload to the end of hope."""
        return self.signed_url_ttl_seconds + self.session_days + self.late_days

    @field_validator("bucket_url")
    @classmethod
    def _is_a_bucket(cls, value: str) -> str:
        scheme, _, name = value.rstrip("/").partition("://")
        if value and (scheme not in ("gs", "s3") or not name or "/" in name):
            raise ValueError("must be gs://bucket or s3://bucket")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _each_type_has_one_policy(self) -> Self:
        types = [each for policy in self.policies for each in policy.content_types]
        for what in (types, [policy.name for policy in self.policies], [policy.folder for policy in self.policies]):
            if len(set(what)) < len(what):
                raise ValueError("policies: each name, folder and content type belongs to one policy")
        if ASIDE in {policy.folder for policy in self.policies}:
            raise ValueError(f"policies: the folder {ASIDE} is for objects that are not what was announced")
        return self

    @property
    def scheme(self) -> str:
        return self.bucket_url.partition("://")[0]

    @property
    def bucket(self) -> str:
        return self.bucket_url.partition("://")[2]

    def policy_for(self, content_type: str) -> Policy | None:
        wanted = content_type.partition(";")[0].strip().lower()
        return next((policy for policy in self.policies if wanted in policy.content_types), None)
