"""Where this process lives: its servers, its directory, its addresses."""

from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import SettingsConfigDict

from penstock.kernel.errors import Language
from penstock.kernel.settings import SettingsGroup


class RuntimeSettings(SettingsGroup):
    """What every role needs to meet the others: PostgreSQL, Redis and the object store."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_")

    home: Path = Field(Path(".penstock"), description="Data directory of `penstock up`")
    database_url: SecretStr = Field(
        SecretStr(""), description="PostgreSQL, postgresql://…; `penstock up` brings its own"
    )
    redis_url: SecretStr = Field(
        SecretStr(""), description="Redis, redis://… or unix://…; `penstock up` brings its own"
    )
    store_url: str = Field("", description="Object store: file:///…, s3://bucket/prefix or gs://bucket/prefix")
    redis_prefix: str = Field("penstock", min_length=1, description="First part of every Redis key")
    host: str = Field(
        "127.0.0.1",
        description="Address to listen on; 0.0.0.0 opens it to the network. No port has TLS of its own, gRPC neither:"
        " put a proxy in front that has it",
    )
    port: int = Field(8000, ge=1, le=65535, description="HTTP port")
    grpc_port: int = Field(8001, ge=1, le=65535, description="gRPC port")
    grpc_trust_metadata: bool = Field(
        False,
        description="Believe x-user-id, x-merchant-id and x-role of gRPC calls: only where nothing but a gateway, which"
        " has checked them, can reach the port",
    )
    grpc_reflection: bool = Field(
        False, description="Tell any gRPC client which services and messages there are, without a token"
    )
    bucket_port: int = Field(8002, ge=1, le=65535, description="Port of the embedded bucket")
    cors_origins: str = Field(
        "*", description="Origins whose pages may call the API with a token, separated by commas; empty: only our own"
    )
    anonymous_connections: int = Field(
        1000,
        ge=1,
        description="Connections of one port over which no signed-in request has come yet; beyond them the oldest are"
        " closed",
    )
    anonymous_connections_per_address: int = Field(200, ge=1, description="The same for one client address")
    requests_per_merchant: int = Field(
        256,
        ge=1,
        description="HTTP requests of one merchant under way at once, per process; beyond them RATE_LIMITED. Event"
        " streams have a limit of their own",
    )
    proxies: str = Field(
        "127.0.0.0/8,::1",
        description="Addresses or networks of proxies in front, separated by commas: they are outside the limit on"
        " connections per address",
    )
    pool_size: int = Field(8, ge=1, le=200, description="PostgreSQL connections per process")
    stall_seconds: timedelta = Field(
        timedelta(seconds=20), description="PostgreSQL cuts off a process that pauses this long inside a transaction"
    )
    shutdown_seconds: timedelta = Field(
        timedelta(seconds=20), description="How long a role may take to finish or hand back what it holds"
    )
    language: Language = Field(Language.EN, description="Language of messages when a request names none: en or zh")

    @field_validator("database_url")
    @classmethod
    def _is_postgres(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value() and not value.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must start with postgresql://")
        return value

    @field_validator("proxies")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        for part in value.split(","):
            if part.strip():
                ip_network(part.strip(), strict=False)
        return value

    @field_validator("redis_url")
    @classmethod
    def _is_redis(cls, value: SecretStr) -> SecretStr:
        if value.get_secret_value() and not value.get_secret_value().startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must start with redis://, rediss:// or unix://")
        return value
