"""Settings of event streams."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup


class StreamSettings(SettingsGroup):
    """How much a stream keeps, and how many may listen. Limits are per process."""

    model_config = SettingsConfigDict(env_prefix="GW_SSE_")

    keepalive_sec: float = Field(30, gt=0, le=300, description="Seconds between two heartbeat events")
    max_connections: int = Field(1000, ge=1, le=100_000, description="Event streams open at once, per process")
    per_merchant_max: int = Field(50, ge=1, description="Event streams open at once for one merchant, per process")
    queue_maxsize: int = Field(
        100, ge=1, le=10_000, description="Events that wait for a slow reader before the oldest is dropped"
    )
    stall_sec: float = Field(120, gt=0, description="Seconds after which a client that reads nothing is let go")
    stream_maxlen: int = Field(2000, ge=10, description="Events kept per topic for clients that come back")
    stream_ttl_sec: int = Field(3600, ge=1, description="Seconds a silent topic is kept; dashboards stay")
    catch_up_sec: float = Field(
        3, gt=0, le=60, description="Seconds between two looks at every topic, in case a wake-up was lost"
    )
