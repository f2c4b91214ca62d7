"""Where the commands that talk to a server find it, when it is not the one on this machine."""

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup


class ClientSettings(SettingsGroup):
    """For `penstock upload`, `jobs`, `job`, `cancel` and `requeue`."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_")

    server: str = Field("", description="Server that commands talk to, http(s)://…; empty: the one on this machine")
    token: SecretStr = Field(
        SecretStr(""), description="Token that commands show; empty: made from the data directory's secret"
    )

    @field_validator("server")
    @classmethod
    def _is_web(cls, value: str) -> str:
        if value and not value.startswith(("http://", "https://")):
            raise ValueError("must start with http:// or https://")
        return value.rstrip("/")
