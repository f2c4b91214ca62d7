"""How tokens are checked: a local secret, a provider's published keys, or both."""

from datetime import timedelta
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup

_SECRET_BYTES = 32  # RFC 7518 §3.2: a key for HS256 is at least as long as its hash
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class IdentitySettings(SettingsGroup):
    """HS256 is only ever checked with `secret`, RS256 and ES256 only with the keys at `jwks_url`."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_JWT_")

    secret: SecretStr = Field(
        SecretStr(""), description="Secret for HS256 tokens and sign-in sessions, at least 32 bytes"
    )
    jwks_url: str = Field("", description="Where the provider publishes its keys for RS256 and ES256 tokens")
    issuer: str = Field(
        "", description="Required `iss` of every token; empty: not checked, which a provider's keys do not allow"
    )
    audience: str = Field(
        "", description="Required `aud` of every token; empty: not checked, which a provider's keys do not allow"
    )
    leeway: timedelta = Field(
        timedelta(seconds=10), ge=timedelta(0), le=timedelta(minutes=5), description="Clock difference that is forgiven"
    )
    session_ttl: timedelta = Field(
        timedelta(hours=12), gt=timedelta(0), le=timedelta(days=30), description="How long a sign-in lasts"
    )
    jwks_refresh: timedelta = Field(
        timedelta(hours=1), gt=timedelta(0), description="Published keys older than this are fetched again"
    )
    jwks_floor: timedelta = Field(
        timedelta(seconds=30), gt=timedelta(0), description="Least time between two fetches, whatever tokens arrive"
    )
    jwks_timeout: timedelta = Field(
        timedelta(seconds=3), gt=timedelta(0), description="How long a fetch of keys may take"
    )

    @field_validator("secret")
    @classmethod
    def _is_long_enough(cls, value: SecretStr) -> SecretStr:
        length = len(value.get_secret_value().encode())
        if 0 < length < _SECRET_BYTES:
            raise ValueError(f"must have at least {_SECRET_BYTES} bytes; it has {length}")
        return value

    @field_validator("jwks_url")
    @classmethod
    def _is_safe(cls, value: str) -> str:
        address = urlsplit(value)
        if value and address.scheme != "https" and not (address.scheme == "http" and address.hostname in _LOOPBACK):
            raise ValueError("must start with https:// (http:// only on this machine)")
        return value

    @model_validator(mode="after")
    def _names_whose_tokens(self) -> Self:
        """A provider signs tokens for many applications with the same keys: only ours may open this server."""
        missing = [self.variable(name) for name in ("issuer", "audience") if not getattr(self, name)]
        if self.jwks_url and missing:
            raise ValueError(
                f"{self.variable('jwks_url')} is set without an issuer and an audience: tokens that the provider made"
                f" for other applications would be taken here; set {' and '.join(missing)}"
            )
        return self

    @property
    def can_check(self) -> bool:
        """Is there anything to check a token with?"""
        return bool(self.secret.get_secret_value() or self.jwks_url)
