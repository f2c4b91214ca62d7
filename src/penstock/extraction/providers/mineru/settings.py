"""The settings of MinerU. The address and the token are enough; the rest are limits."""

from datetime import timedelta
from typing import Literal

from pydantic import Field, PositiveInt, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup


class MineruSettings(SettingsGroup):
    """Where MinerU is, hosted or on a machine of yours, and how long it is waited for."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_MINERU_")

    base_url: str = Field(
        "", description="https://mineru.net/api/v4, or the address of a server of yours; which kind is found out"
    )
    token: SecretStr = Field(SecretStr(""), description="Token of the hosted service, or API key of a server of yours")
    model_version: str = Field(
        "", description="Hosted: pipeline or vlm; 2.x and 3.x: the backend; 4.x: the tier. Empty: the service's own"
    )
    language: str = Field("ch", description="Language of the text; ch reads Chinese and English. 4.x finds it out")
    ocr_mode: Literal["auto", "ocr", "txt"] = Field(
        "auto", description="auto: OCR where there is no text; ocr: always; txt: never (the hosted service: as auto)"
    )
    formulas: bool = Field(True, description="Whether formulas are read as LaTeX")
    pages_per_part: PositiveInt = Field(
        200, description="Longer documents go to the hosted service in parts of so many pages"
    )
    poll_first_seconds: timedelta = Field(
        timedelta(seconds=2), gt=timedelta(0), description="Pause before the first look"
    )
    poll_most_seconds: timedelta = Field(
        timedelta(seconds=30), gt=timedelta(0), description="Longest pause between two looks"
    )
    poll_limit_seconds: timedelta = Field(
        timedelta(minutes=30),
        gt=timedelta(0),
        description="One attempt looks for so long; the next one goes on looking",
    )
    connect_timeout_seconds: timedelta = Field(
        timedelta(seconds=10), gt=timedelta(0), description="For a connection to be made"
    )
    read_timeout_seconds: timedelta = Field(
        timedelta(seconds=60), gt=timedelta(0), description="Between two pieces of an answer"
    )
    parse_timeout_seconds: timedelta = Field(
        timedelta(minutes=30),
        gt=timedelta(0),
        description="For the whole answer of a 2.x server, which works while we wait",
    )
    transfer_timeout_seconds: timedelta = Field(
        timedelta(minutes=10),
        gt=timedelta(0),
        description="For sending a document or fetching its result, from beginning to end",
    )
    max_result_mb: PositiveInt = Field(512, description="Largest result in MiB, packed")
    max_unpacked_mb: PositiveInt = Field(2048, description="Largest result in MiB, unpacked")
    max_member_mb: PositiveInt = Field(128, description="Largest file in a result in MiB, unpacked")
    max_members: PositiveInt = Field(20_000, description="Most files in a result")

    @field_validator("base_url")
    @classmethod
    def _is_web(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        if "?" in value or "#" in value or "@" in value:
            raise ValueError("has no query, fragment or credentials")
        return value.rstrip("/")
