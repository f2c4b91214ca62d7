"""Settings of jobs: how they are admitted, how often they may be asked for, what stays of a cancelled one."""

from typing import ClassVar, Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup


class DocumentSettings(SettingsGroup):
    """Jobs: admission, limits per merchant, files."""

    model_config = SettingsConfigDict(env_prefix="GW_")
    without_effect: ClassVar = {"GW_JOB_DATA_DIR": "documents are kept in the object store; set PENSTOCK_STORE_URL"}

    admission_lease_sec: float = Field(
        30, ge=1, le=600, description="Seconds after which another takes over an admission whose process died"
    )
    admission_wait_sec: float = Field(
        120, ge=1, le=3600, description="Seconds a request waits for another one that admits the same upload"
    )
    admissions_per_merchant: int = Field(
        1, ge=1, description="Files of one merchant that an instance looks into at once; the others wait their turn"
    )
    admission_leftover_min: int = Field(
        60, ge=1, description="Minutes after which what a broken admission left behind is removed"
    )
    idempotency_hours: int = Field(48, ge=24, description="Hours an Idempotency-Key is remembered")
    cancelled_files: Literal["delete", "keep"] = Field("delete", description="What becomes of a cancelled job's files")
    job_rate_per_min: float = Field(60, gt=0, description="Jobs a merchant may create per minute, in the long run")
    job_burst: int = Field(30, ge=1, description="Jobs a merchant may create at once")
    api_rate_per_sec: float = Field(50, gt=0, description="API calls of a merchant per second, in the long run")
    api_burst: int = Field(200, ge=1, description="API calls of a merchant at once")
    upload_rate_per_sec: float = Field(
        50, gt=0, description="Uploads a merchant may begin or cancel per second, in the long run"
    )
    upload_burst: int = Field(500, ge=1, description="Uploads a merchant may begin or cancel at once")
    image_dpi_max: int = Field(200, ge=36, le=600, description="Finest resolution of a page image")
