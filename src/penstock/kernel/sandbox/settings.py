"""The settings of the sandbox: how many calls at once, what a call may use, what the kernel must enforce."""

from typing import Literal

from pydantic import ByteSize, Field, PositiveFloat, PositiveInt
from pydantic_settings import SettingsConfigDict

from penstock.kernel.sandbox.outcome import Limits, MiB
from penstock.kernel.settings import SettingsGroup


class SandboxSettings(SettingsGroup):
    """One pool. The limits are the most that a call of this pool can ask for, and what it gets by default."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_SANDBOX_")

    workers: PositiveInt = Field(
        2,
        description="Calls that run at once, each in a process of its own; one more is kept for a merchant that has "
        "none running, so that no merchant can hold up the others",
    )
    require: Literal["any", "filter", "full"] = Field(
        "any",
        description="What the kernel must enforce around a process that reads a stranger's file, or the server does "
        "not start: `full` (limits, system call filter, file rules: Linux 5.13 or newer with Landlock), `filter` "
        "(without file rules: it could read what its account can read), `any`. Weaker than `full` is said in the log, "
        "in /health and by `penstock doctor`",
    )
    start_seconds: PositiveFloat = Field(20, description="A template that is not ready after so long is given up")
    memory: ByteSize = Field(ByteSize(512 * MiB), description="Memory a call may take on top of the warm template")
    cpu_seconds: PositiveFloat = Field(30, description="CPU time of a call, over all its threads")
    wall_seconds: PositiveFloat = Field(
        300, description="Time after which a call is killed that still has CPU time: no verdict, it is tried again"
    )
    open_files: int = Field(32, ge=0, description="Files a call may hold open at once")
    result_bytes: ByteSize = Field(ByteSize(MiB), gt=0, description="Largest encoded result of a call")

    @property
    def limits(self) -> Limits:
        return Limits(
            memory=int(self.memory),
            cpu_seconds=self.cpu_seconds,
            wall_seconds=self.wall_seconds,
            open_files=self.open_files,
            result_bytes=int(self.result_bytes),
        )
