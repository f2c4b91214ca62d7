"""The settings of the harvest."""

from datetime import timedelta
from pathlib import Path

from pydantic import Field, PositiveInt
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup


class HarvestSettings(SettingsGroup):
    """How many tasks run at once, how long they are held, where sources and secrets are."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_HARVEST_")

    sources: Path = Field(Path("sources"), description="Directory of source files, for the command line")
    secrets: Path | None = Field(None, description="Directory of secrets, one file each, for `store:` references")
    total: PositiveInt = Field(8, description="Tasks at once over all executors")
    per_executor: PositiveInt = Field(4, description="Tasks at once in one executor")
    lease_seconds: timedelta = Field(
        timedelta(seconds=60), description="A task whose executor is silent for so long is given to another"
    )
    poll_seconds: timedelta = Field(timedelta(seconds=1), description="How often an idle executor looks for tasks")
    leave_seconds: timedelta = Field(
        timedelta(seconds=10), description="Time that a stopping executor gives its requests to end"
    )
    attempts: PositiveInt = Field(8, description="Runs of one task before it fails for good")
    plan_seconds: timedelta = Field(timedelta(seconds=10), description="How often schedules are looked at")
    permit_seconds: timedelta = Field(
        timedelta(seconds=30), description="A task that would wait longer than this for the rate limit is given back"
    )
    count_calls: PositiveInt = Field(
        200, description="How often one plan asks a source for the number of results, at the most"
    )
    plan_stall_seconds: timedelta = Field(
        timedelta(minutes=2), description="A plan that nobody has worked on for so long is gone on with by another"
    )
    update_limit: PositiveInt = Field(100_000, description="Records that one refresh looks at again, at the most")
    allow_private: bool = Field(
        False,
        description="Sources applied over the API may lead into our own network; for servers and executors alike",
    )
