"""The settings of ETL."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveFloat, PositiveInt, SecretStr
from pydantic_settings import SettingsConfigDict

from penstock.kernel.rategate import RatePolicy
from penstock.kernel.settings import SettingsGroup

if TYPE_CHECKING:
    from penstock.kernel.sandbox import Limits

_RESULT_BYTES = 31 << 20  # of one call: the result of a long document, or what the next pages go on with


class EtlSettings(SettingsGroup):
    """How documents are read and turned into JSON: who does it, how often it is tried, where chunks begin."""

    model_config = SettingsConfigDict(env_prefix="ETL_")

    queue_size: PositiveInt = Field(1000, description="Tasks that may wait; more are refused until some are done")
    queue_share: float = Field(
        0.5, gt=0, le=1, description="The part of the queue that tasks of one merchant may take; 1: all of it"
    )
    worker_count: PositiveInt = Field(3, description="Tasks at once in one worker process")
    worker_share: float = Field(
        0.7, gt=0, le=1, description="The part of these places that tasks of one merchant may take; 1: all of them"
    )
    task_timeout: timedelta = Field(
        timedelta(seconds=600),
        gt=timedelta(0),
        description="A stage that shows no progress for so long is given up and tried again",
    )
    cache_dir: Path = Field(Path(".mineru_cache"), description="Where files are kept while they are worked on")
    rules_dir: Path = Field(Path(".etl_rules"), description="Directory of rule files, for the command line")
    redis_url: SecretStr = Field(
        SecretStr(""), description="Redis of run states and jobs; empty: the one of PENSTOCK_REDIS_URL"
    )
    redis_prefix: str = Field("etl:", description="Begins the Redis keys of tasks, after the product's own prefix")
    state_ttl_seconds: timedelta = Field(
        timedelta(days=1), gt=timedelta(0), description="How long Redis remembers a task that runs"
    )
    ended_ttl_seconds: timedelta = Field(
        timedelta(hours=1), gt=timedelta(0), description="How long Redis remembers a task that ended"
    )
    arq_queue_name: str = Field("etl", description="The ARQ queue of ETL jobs")
    ocr_max_attempts: PositiveInt = Field(3, description="How often reading is tried before the task fails")
    postprocess_max_attempts: PositiveInt = Field(3, description="How often post-processing is tried")
    retry_backoff_base_seconds: timedelta = Field(
        timedelta(seconds=5), description="Pause after the first failed attempt; doubled after each further one"
    )
    retry_backoff_max_seconds: timedelta = Field(timedelta(minutes=5), description="Longest pause between attempts")
    max_lost_workers: PositiveInt = Field(
        10, description="A task that so many workers died over fails: it may be what kills them"
    )
    sweep_seconds: timedelta = Field(
        timedelta(seconds=5), gt=timedelta(0), description="How often lost jobs are looked for"
    )
    lease_seconds: timedelta = Field(
        timedelta(seconds=30),
        gt=timedelta(0),
        description="A task whose worker is silent for so long is given to another",
    )
    postprocess_chunk_threshold_chars: PositiveInt = Field(
        48_000, description="Longer documents are worked on in chunks unless the rule says otherwise"
    )
    postprocess_chunk_size_chars: PositiveInt = Field(16_000, description="About how long a chunk is")
    postprocess_max_chunks: PositiveInt = Field(200, description="A document that needs more chunks is refused")
    postprocess_large_strategy: Literal["chunked-summarize", "chunked-extract"] = Field(
        "chunked-extract", description="The strategy for documents above the threshold"
    )
    global_rule_enabled: bool = Field(True, description="Whether tasks without a rule use the built-in one")
    global_rule_id: int | None = Field(None, description="Another rule to use for tasks that name none")
    try_rate_per_min: float = Field(
        30, gt=0, description="How often a merchant may try rules on a text per minute, in the long run"
    )
    try_burst: PositiveInt = Field(10, description="And how often at once")
    rule_rate_per_min: float = Field(
        30, gt=0, description="How often a merchant may make or change rules per minute, in the long run"
    )
    rule_burst: PositiveInt = Field(30, description="And how often at once")
    rules_per_merchant: PositiveInt = Field(
        500, description="Rules that a merchant may have over the API; more are refused until some are removed"
    )
    rule_cpu_sec: PositiveFloat = Field(
        30,
        description="CPU time of one call that checks or applies a rule, in whole seconds rounded up; rules that take"
        " more steps than usual are refused long before",
    )
    rule_memory_mb: PositiveInt = Field(256, description="Memory of such a call in MiB")
    artefacts_days: int = Field(
        30, ge=1, description="Days after its end for which what a task has read and made is kept in the object store"
    )
    tasks_days: int = Field(
        180, ge=1, description="Days after its end for which a task and its result are known; not less than the former"
    )
    provider: str = Field("local", description="Who reads documents: local, mineru, or an installed provider")
    max_file_mb: PositiveInt = Field(200, description="Largest document in MiB")
    stored_mb_per_merchant: PositiveInt = Field(
        20 * 1024,
        description="Documents by upload that are kept for one merchant, in MiB together; the same one counts once,"
        " until the last task that read it is forgotten",
    )

    def try_policy(self) -> RatePolicy:
        return RatePolicy(rate=self.try_rate_per_min / 60, burst=self.try_burst)

    def rule_policy(self) -> RatePolicy:
        return RatePolicy(rate=self.rule_rate_per_min / 60, burst=self.rule_burst)

    def rule_limits(self) -> "Limits":
        """Of a call into the sandbox. The clock is only for a machine that is stuck: CPU time is what a rule has."""
        from penstock.kernel.sandbox import Limits  # the command line reads these settings and has no sandbox

        return Limits(
            memory=self.rule_memory_mb << 20, cpu_seconds=self.rule_cpu_sec, wall_seconds=10 * self.rule_cpu_sec,
            result_bytes=_RESULT_BYTES, open_files=0,
        )  # fmt: skip

    @property
    def merchant_places(self) -> int:
        return max(1, int(self.queue_size * self.queue_share))
