"""The settings of the sandbox: how many workers, how long one lives, what a call may use."""

from pydantic import ByteSize, Field, PositiveFloat, PositiveInt
from pydantic_settings import SettingsConfigDict

from penstock.kernel.sandbox.outcome import Limits, MiB
from penstock.kernel.settings import SettingsGroup


class SandboxSettings(SettingsGroup):
    """One pool. The limits are the most that a call of this pool can ask for, and what it gets by default."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_SANDBOX_")

    workers: PositiveInt = Field(2, description="Warm processes; so many calls run at once, the others wait in line")
    calls_per_worker: PositiveInt = Field(
        200, description="A worker is replaced after so many calls; 1 gives every call a fresh process"
    )
    growth: ByteSize = Field(
        ByteSize(64 * MiB), description="A worker that keeps more memory than this after a call is replaced"
    )
    start_seconds: PositiveFloat = Field(20, description="A worker that is not ready after so long is given up")
    memory: ByteSize = Field(ByteSize(512 * MiB), description="Memory a call may take on top of the idle worker")
    cpu_seconds: PositiveFloat = Field(30, description="CPU time of a call, in whole seconds rounded up")
    wall_seconds: PositiveFloat = Field(30, description="Time after which a call is killed")
    file_bytes: ByteSize = Field(ByteSize(0), description="Largest file a call may write; 0 forbids writing")
    open_files: int = Field(32, ge=0, description="Files a call may hold open at once")
    result_bytes: ByteSize = Field(ByteSize(MiB), gt=0, description="Largest encoded result of a call")

    @property
    def limits(self) -> Limits:
        return Limits(
            memory=int(self.memory),
            cpu_seconds=self.cpu_seconds,
            wall_seconds=self.wall_seconds,
            file_bytes=int(self.file_bytes),
            open_files=self.open_files,
            result_bytes=int(self.result_bytes),
        )
