"""What operators may choose about logs, traces and metrics."""

from enum import StrEnum

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup


class LogFormat(StrEnum):
    """How log lines look."""

    AUTO = "auto"  # console on a terminal, json elsewhere
    JSON = "json"  # one object per line
    CONSOLE = "console"  # for people


class LogLevel(StrEnum):
    """The least that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class TelemetrySettings(SettingsGroup):
    """Logs, traces and metrics."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_")

    log_format: LogFormat = Field(LogFormat.AUTO, description="auto, json or console")
    log_level: LogLevel = Field(LogLevel.INFO, description="debug, info, warning or error")
    mask_key: SecretStr = Field(
        SecretStr(""),
        description="Key of the hashes that stand for masked values; roles that share it give equal values equal"
        " hashes, without it they compare within one process only",
    )
    otlp_endpoint: str = Field(
        "", description="OpenTelemetry collector, for example http://localhost:4318; empty: no traces"
    )
    metrics_port: int = Field(
        0, ge=0, le=65535, description="Port of /metrics for a worker or scheduler that runs alone; 0: none"
    )
    metrics_shared_sec: float = Field(
        1.0,
        ge=0,
        description="Seconds for which callers of /metrics share one answer: anybody may ask, and it is costly",
    )
    trace_ratio: float = Field(1.0, ge=0, le=1, description="Share of new traces that is recorded")

    @field_validator("otlp_endpoint")
    @classmethod
    def _is_http(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value.rstrip("/")
