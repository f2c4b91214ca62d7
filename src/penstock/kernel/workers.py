"""Which processes are alive. Each reports every 30 s; silence makes it SUSPECT after 60 s, DEAD after 90 s.

PostgreSQL holds the truth (`worker_heartbeats`); Redis holds a copy with a time-to-live for quick looks.
"""

import asyncio
import os
import socket
from datetime import timedelta
from enum import StrEnum
from uuid import UUID, uuid4

import structlog
from prometheus_client import Counter
from pydantic import Field
from pydantic_settings import SettingsConfigDict

import penstock
from penstock.kernel.backoff import pause
from penstock.kernel.db import Database, Tx, fetch_all, fetch_one
from penstock.kernel.errors import Kind, PenstockError
from penstock.kernel.redis import Keys, Redis, RedisTrouble
from penstock.kernel.settings import SettingsGroup
from penstock.kernel.statemachine import Machine, Step, arrow, enter, move

log = structlog.get_logger(__name__)

_REMEMBERED = timedelta(days=1)  # every restart leaves a name behind
_reported = Counter("gateway_heartbeat_reported_total", "Heartbeats sent")


class WorkerStatus(StrEnum):
    """What we believe of a process."""

    ALIVE = "ALIVE"  # reported within the last minute
    SUSPECT = "SUSPECT"  # silent for 60 s: no new work is counted on it
    DEAD = "DEAD"  # silent for 90 s, or said goodbye: its work is up for others


WORKER = Machine(
    entity="worker",
    table="worker_heartbeats",
    key="worker_id",
    states=WorkerStatus,
    arrows=[
        arrow(None, WorkerStatus.ALIVE, "worker", "worker_alive"),
        arrow(WorkerStatus.ALIVE, WorkerStatus.SUSPECT, "scheduler", "worker_suspect"),
        arrow(WorkerStatus.ALIVE, WorkerStatus.DEAD, "worker, scheduler", "worker_dead"),
        arrow(WorkerStatus.SUSPECT, WorkerStatus.ALIVE, "worker", "worker_alive"),
        arrow(WorkerStatus.SUSPECT, WorkerStatus.DEAD, "worker, scheduler", "worker_dead"),
        arrow(WorkerStatus.DEAD, WorkerStatus.ALIVE, "worker", "worker_alive"),
    ],
)


class WorkerSettings(SettingsGroup):
    """Who this process is and how it shows that it lives."""

    model_config = SettingsConfigDict(env_prefix="GW_")

    worker_id: str = Field("", description="Name of this instance; default: host name, process id and a nonce")
    heartbeat_interval_sec: timedelta = Field(timedelta(seconds=30), description="Time between heartbeats")
    heartbeat_suspect_sec: timedelta = Field(timedelta(seconds=60), description="Silence after which one is SUSPECT")
    heartbeat_ttl_sec: timedelta = Field(timedelta(seconds=90), description="Silence after which one is DEAD")

    def name(self) -> str:
        return self.worker_id or f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"


class Heartbeat:
    """This process's sign of life."""

    def __init__(self, database: Database, redis: Redis, keys: Keys, settings: WorkerSettings, worker_id: str) -> None:
        self._database = database
        self._redis = redis
        self._key = keys.heartbeat(worker_id)
        self._settings = settings
        self._worker_id = worker_id
        self.takes_jobs = False  # reported, so that whoever gives jobs out knows who can do them

    async def run(self, stop: asyncio.Event) -> None:
        """Report until told to stop, then say goodbye."""
        while True:
            try:
                await self.report()
            except PenstockError as away:
                if away.kind not in {Kind.UNAVAILABLE, Kind.CONFLICT}:
                    raise
                log.warning("heartbeat.waiting", reason=str(away))
            if await pause(stop, self._settings.heartbeat_interval_sec.total_seconds()):
                break
        try:
            await self.leave()
        except PenstockError as away:
            log.warning("heartbeat.left_silently", reason=str(away))

    async def report(self) -> None:
        async with self._database.transaction() as tx:
            await self._touch(tx)
        _reported.inc()
        try:
            ttl = int(self._settings.heartbeat_ttl_sec.total_seconds())
            await self._redis.set(self._key, penstock.__version__, ex=max(ttl, 1))
        except RedisTrouble:
            log.info("heartbeat.redis_away")

    async def leave(self) -> None:
        async with self._database.transaction() as tx:
            row = await fetch_one(tx, "select status from worker_heartbeats where worker_id = %s", (self._worker_id,))
            if row and row["status"] != WorkerStatus.DEAD:
                await move(tx, WORKER, self._step(WorkerStatus(row["status"]), WorkerStatus.DEAD, "left"))
        try:
            await self._redis.delete(self._key)
        except RedisTrouble:
            log.info("heartbeat.redis_away")

    async def _touch(self, tx: Tx) -> None:
        row = await fetch_one(
            tx,
            "insert into worker_heartbeats (worker_id, hostname, version, takes_jobs) values (%s, %s, %s, %s)"
            " on conflict (worker_id) do update set last_heartbeat = now(), version = excluded.version,"
            " takes_jobs = excluded.takes_jobs returning status, (xmax = 0) as fresh",
            (self._worker_id, socket.gethostname(), penstock.__version__, self.takes_jobs),
        )
        if row is None or row["fresh"]:
            await enter(tx, WORKER, self._step(None, WorkerStatus.ALIVE, "started"))
        elif row["status"] != WorkerStatus.ALIVE:
            await move(tx, WORKER, self._step(WorkerStatus(row["status"]), WorkerStatus.ALIVE, "came_back"))

    def _step(self, source: WorkerStatus | None, target: WorkerStatus, trigger: str) -> Step:
        return Step(self._worker_id, source, target, by="worker", trigger=trigger)


async def judge_silence(tx: Tx, settings: WorkerSettings) -> dict[str, WorkerStatus]:
    """Move the silent ones on; returns who became what. The long dead are forgotten; their history stays."""
    await tx.execute(
        "delete from worker_heartbeats where status = 'DEAD' and last_heartbeat < now() - %s::interval", (_REMEMBERED,)
    )
    silent = await fetch_all(
        tx,
        "select worker_id, status, now() - last_heartbeat as silence from worker_heartbeats"
        " where status <> 'DEAD' and last_heartbeat < now() - %s::interval for update skip locked",
        (settings.heartbeat_suspect_sec,),
    )
    judged: dict[str, WorkerStatus] = {}
    for row in silent:
        verdict = WorkerStatus.DEAD if row["silence"] >= settings.heartbeat_ttl_sec else WorkerStatus.SUSPECT
        if row["status"] == verdict:
            continue
        source = WorkerStatus(row["status"])
        step = Step(row["worker_id"], source, verdict, by="scheduler", trigger="heartbeat_scan")
        await move(tx, WORKER, step)
        judged[row["worker_id"]] = verdict
    return judged


async def all_workers(tx: Tx) -> list[dict[str, object]]:
    """Everyone known, the latest sign of life first."""
    return await fetch_all(
        tx,
        "select worker_id, hostname, status, started_at, last_heartbeat, active_job_ids, version, takes_jobs"
        " from worker_heartbeats order by last_heartbeat desc limit 1000",
    )


async def workers_for_jobs(tx: Tx) -> list[str]:
    """Who may be given a job: alive, and of the kind that does them. The latest sign of life first."""
    rows = await fetch_all(
        tx,
        "select worker_id from worker_heartbeats where status = 'ALIVE' and takes_jobs order by last_heartbeat desc",
    )
    return [row["worker_id"] for row in rows]


async def note_job(tx: Tx, worker_id: str, job_id: UUID) -> bool:
    """Enter a job as the worker's; False if the worker is not alive, so that it must not begin one."""
    row = await fetch_one(
        tx,
        "update worker_heartbeats set active_job_ids = array_append(array_remove(active_job_ids, %(job)s), %(job)s)"
        " where worker_id = %(worker)s and status in ('ALIVE') returning 1",
        {"job": job_id, "worker": worker_id},
    )
    return row is not None


async def forget_job(tx: Tx, worker_id: str, job_id: UUID) -> None:
    await tx.execute(
        "update worker_heartbeats set active_job_ids = array_remove(active_job_ids, %s) where worker_id = %s",
        (job_id, worker_id),
    )
