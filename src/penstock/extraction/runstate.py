"""What is happening to a task right now, in Redis: quick to read, allowed to vanish, never moving backwards.

The truth is the row in PostgreSQL; whoever finds no run state, or a doubtful one, rebuilds it from there. Writes that
Redis does not take are only logged. Order within a task: generation (a user's retry), the lease's token, the state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib import resources
from typing import Any

import structlog

from penstock.extraction.settings import EtlSettings
from penstock.extraction.states import RunStatus, Stage
from penstock.kernel import json
from penstock.kernel.clock import Clock
from penstock.kernel.redis import Keys, Redis, RedisTrouble, ScriptCall, run_scripts

log = structlog.get_logger(__name__)

_RANKS = {RunStatus.PENDING: 0, RunStatus.MINERU_PARSING: 1, RunStatus.LLM_PROCESSING: 2}
_ENDED = 3
# Of the row, so that a look needs no database.
_FACTS = ("merchant_id", "filename", "rule_id", "rule_version", "created_at", "started_at")


@dataclass(frozen=True, slots=True)
class RunState:
    """One task as Redis knows it."""

    task_id: int
    generation: int
    token: int
    status: RunStatus
    phase: Stage
    progress: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)  # _FACTS, attempts, job_id, artifacts, error, pages …
    updated_at: datetime | None = None

    @property
    def is_over(self) -> bool:
        return self.status not in _RANKS


def of_row(row: Mapping[str, Any]) -> RunState:
    """What the row implies: the stage by its phase, whether it began by its lease or start."""
    status = RunStatus(row["status"])
    if status is RunStatus.PENDING and row["started_at"] is not None:
        status = RunStatus.MINERU_PARSING if row["phase"] == Stage.OCR else RunStatus.LLM_PROCESSING
    facts = {name: _plain(row[name]) for name in _FACTS} | {
        "attempts": {Stage.OCR: row["ocr_attempts"], Stage.POSTPROCESS: row["postprocess_attempts"]},
        "artifacts": row["metadata"].get("artifacts", {}),
        "pages": None,  # of the stage before, and the pause that is over, are not told on
        "next_attempt_at": None,
    }
    return RunState(
        row["task_id"], row["generation"], row["lease_token"], status, Stage(row["phase"]), row["progress"], facts
    )


class RunStates:
    """Reads and writes run states."""

    def __init__(self, redis: Redis, keys: Keys, settings: EtlSettings, clock: Clock) -> None:
        self._redis = redis
        self._keys = keys
        self._settings = settings
        self._clock = clock
        text = resources.files(__package__).joinpath("runstate.lua").read_text("utf-8")
        self._script = redis.register_script(text)

    async def write(self, state: RunState) -> bool:
        """False: something newer is there, or Redis is away."""
        try:
            [is_written] = await run_scripts(self._redis, self.writing(state))
        except RedisTrouble as away:
            log.info("etl.state_not_written", task=state.task_id, reason=str(away))
            return False
        return bool(is_written)

    def writing(self, state: RunState) -> ScriptCall:
        """What `write` runs, for who has more to tell Redis."""
        ttl = self._settings.ended_ttl_seconds if state.is_over else self._settings.state_ttl_seconds
        fields = {"status": state.status.value, "phase": state.phase.value, "updated_at": self._clock.now().isoformat()}
        fields |= {name: json.dumps(value) for name, value in state.facts.items()}
        arguments: list[str | int] = [state.generation, state.token, _RANKS.get(state.status, _ENDED), state.progress]
        arguments += [int(ttl / timedelta(milliseconds=1)), *(part for pair in fields.items() for part in pair)]
        return ScriptCall(self._script, [self._key(state.task_id)], arguments)

    async def note(self, task_id: int, **facts: Any) -> None:
        """Facts beside the state, such as the id of the queued job; only if there is a state."""
        try:
            if await self._redis.exists(self._key(task_id)):
                await self._redis.hset(self._key(task_id), mapping={k: json.dumps(v) for k, v in facts.items()})  # type: ignore[misc]
        except RedisTrouble as away:
            log.info("etl.state_not_written", task=task_id, reason=str(away))

    async def read(self, task_id: int) -> RunState | None:
        return (await self.read_many([task_id])).get(task_id)

    async def read_many(self, task_ids: Sequence[int]) -> dict[int, RunState]:
        """Those that Redis knows; none when it is away."""
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                for task_id in task_ids:
                    pipe.hgetall(self._key(task_id))
                found = await pipe.execute()
        except RedisTrouble as away:
            log.info("etl.state_not_read", reason=str(away))
            return {}
        return {task_id: _read(task_id, raw) for task_id, raw in zip(task_ids, found, strict=True) if b"rank" in raw}

    def _key(self, task_id: int) -> str:
        return self._keys.etl_task(self._settings.redis_prefix, task_id)


_OWN = {b"status", b"phase", b"updated_at", b"generation", b"token", b"rank", b"progress"}


def _read(task_id: int, raw: Mapping[bytes, bytes]) -> RunState:
    facts = {name.decode(): json.loads(value) for name, value in raw.items() if name not in _OWN}
    return RunState(
        task_id, int(raw[b"generation"]), int(raw[b"token"]), RunStatus(raw[b"status"].decode()),
        Stage(raw[b"phase"].decode()), int(raw[b"progress"]), facts,
        datetime.fromisoformat(raw[b"updated_at"].decode()),
    )  # fmt: skip


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value
