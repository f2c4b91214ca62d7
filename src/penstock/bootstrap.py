"""The only place that builds adapters and wires events to handlers. Everything else is handed what it needs.

`load_settings()` reads every group once; `started(settings, role=...)` opens what a role needs and closes it in the
reverse order.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, fields
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import structlog

from penstock import documents
from penstock.documents.checkpoint import Checkpoints
from penstock.documents.orphan_settings import OrphanSettings
from penstock.documents.orphans import OrphanScan
from penstock.documents.processing import JobRounds, PageProcessor, Workplace
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.extraction.settings import EtlSettings
from penstock.harvest.settings import HarvestSettings
from penstock.kernel import sinks, webhooks
from penstock.kernel.budget import Budgets
from penstock.kernel.client import ClientSettings
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.db import Database, Tx
from penstock.kernel.deliveries import Deliveries, DeliverySettings, Receivers
from penstock.kernel.events import StoredEvent
from penstock.kernel.health import Health, HealthSettings, database_check, disk_check, redis_check, store_check
from penstock.kernel.identity import Identity, IdentitySettings
from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.objectstores import StoreUrlInvalid, open_store
from penstock.kernel.queue import Queue
from penstock.kernel.rategate import ForgivingGate, GateSettings, RateGate
from penstock.kernel.reactions import Reaction, Reactions
from penstock.kernel.redis import Keys, Redis, RedisTrouble, connect
from penstock.kernel.relay import Outlets, Publish, Relay, RelaySettings
from penstock.kernel.retention import OUTBOX_EVENTS, STATE_TRANSITIONS, Archiver, RetentionSettings
from penstock.kernel.runtime import RuntimeSettings
from penstock.kernel.sandbox import SandboxSettings
from penstock.kernel.scheduler import Duty, Fence, SchedulerSettings
from penstock.kernel.settings import SettingsError, SettingsFile, SettingsGroup, unknown_variables
from penstock.kernel.streams import (
    Snapshots,
    StreamEvent,
    StreamHub,
    StreamPublisher,
    StreamReader,
    StreamSettings,
)
from penstock.kernel.telemetry import TelemetrySettings, start_telemetry
from penstock.kernel.telemetry.metrics import metrics_server
from penstock.kernel.webhooks import WebhookCaller, WebhookSettings
from penstock.kernel.workers import Heartbeat, WorkerSettings, all_workers, judge_silence
from penstock.pdf import Examiner, PdfSettings, pdf_sandbox
from penstock.pdf.ocr.settings import OcrSettings
from penstock.uploads.tus import Expiry, Uploads, UploadSettings

if TYPE_CHECKING:
    from penstock.harvest.desk import HarvestDesk

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """Every group of settings; `penstock config` shows them in this order."""

    runtime: RuntimeSettings
    identity: IdentitySettings
    client: ClientSettings
    streams: StreamSettings
    workers: WorkerSettings
    uploads: UploadSettings
    orphans: OrphanSettings
    relay: RelaySettings
    scheduler: SchedulerSettings
    deliveries: DeliverySettings
    webhooks: WebhookSettings
    gate: GateSettings
    sandbox: SandboxSettings
    pdf: PdfSettings
    ocr: OcrSettings
    health: HealthSettings
    retention: RetentionSettings
    telemetry: TelemetrySettings
    documents: documents.DocumentSettings
    harvest: HarvestSettings
    etl: EtlSettings
    mineru: MineruSettings


GROUPS: Mapping[str, type[SettingsGroup]] = {field.name: field.type for field in fields(Settings)}  # type: ignore[misc]
REACTIONS: Sequence[Reaction] = ()  # domains add theirs


def load_settings(file: SettingsFile | None = None, **runtime: Any) -> Settings:
    """Read all groups; keyword arguments override the runtime group. A wrong value raises SettingsError."""
    source = file or SettingsFile.find()
    source.refuse_unknown(tuple(GROUPS.values()))
    loaded = {name: source.load(group, **(runtime if name == "runtime" else {})) for name, group in GROUPS.items()}
    return Settings(**loaded)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Parts:
    """What is open in this process."""

    settings: Settings
    worker_id: str
    clock: Clock
    database: Database
    redis: Redis
    keys: Keys
    queue: Queue
    store: ObjectStore
    identity: Identity
    hub: StreamHub
    health: Health
    receivers: Receivers
    uploads: Uploads
    examiner: Examiner

    @cached_property
    def desk(self) -> documents.Desk:
        return documents.Desk(
            self.database, self.store, self.redis, self.keys, self.examiner, self.settings.documents, self.uploads,
            _store_url(self.settings), self.worker_id,
        )  # fmt: skip

    @cached_property
    def harvest(self) -> "HarvestDesk":
        from penstock.harvest.desk import HarvestDesk  # slow to import, and not every role needs it

        gate = RateGate(self.redis, self.keys, clock=self.clock, settings=self.settings.gate)
        return HarvestDesk(self.database, gate, self.settings.harvest, self.clock)

    @cached_property
    def limits(self) -> documents.CallLimits:
        gate = ForgivingGate(self.redis, self.keys, clock=self.clock, settings=self.settings.gate)
        return documents.CallLimits(gate, self.settings.documents)

    def relay(self) -> Relay:
        return Relay(
            self.database,
            Outlets(self.receivers.publish, self.receivers.rows_for, self._wake_deliverers),
            self.settings.relay,
        )

    def deliveries(self) -> Deliveries:
        return Deliveries(self.database, self.receivers, self.settings.deliveries, owner=self.worker_id)

    def heartbeat(self, *, takes_jobs: bool = False) -> Heartbeat:
        made = Heartbeat(self.database, self.redis, self.keys, self.settings.workers, self.worker_id)
        made.takes_jobs = takes_jobs
        return made

    def job_rounds(self, processor: PageProcessor) -> JobRounds:
        checkpoints = Checkpoints(self.database, self.redis, self.keys)
        return JobRounds(Workplace(self.database, checkpoints, self.settings.orphans, self.worker_id), processor)

    def duties(self) -> list[Duty]:
        """Scheduled work; one line each."""
        workers, orphans = self.settings.workers, self.settings.orphans
        scan = OrphanScan(self.database, orphans, workers.heartbeat_ttl_sec, self.settings.runtime.language)
        return [
            Duty("workers.judge_silence", workers.heartbeat_ttl_sec / 6, self._judge_silence),
            Duty("documents.orphans", orphans.orphan_scan_interval_sec, scan.run),
            Duty("budgets.expire", timedelta(minutes=1), self._expire_budgets),
            Duty("retention.archive", timedelta(hours=6), self._archive),
            Duty("uploads.expire", timedelta(hours=1), Expiry(self.database, self.uploads).run),
            Duty("store.sweep", timedelta(hours=1), self._sweep_store),
            Duty("jobs.sweep_admissions", timedelta(minutes=10), self._sweep_admissions),
            Duty("jobs.remove_files", timedelta(seconds=10), self._remove_files),
            Duty("harvest.sweep", self.settings.harvest.lease_seconds / 4, self._sweep_tasks),
            *self._schedules(),
        ]

    def _schedules(self) -> list[Duty]:
        from penstock.harvest.planning import Schedules  # as above

        return Schedules(self.harvest.planner).duties()

    async def _wake_deliverers(self, slot: int) -> None:
        try:
            await self.queue.wake("deliver", slot, once=f"deliver:{slot}")
        except RedisTrouble:
            log.info("queue.wake_up_lost", slot=slot)  # workers look for themselves within a second

    async def _judge_silence(self, fence: Fence) -> None:
        async with self.database.transaction() as tx:
            await fence.hold(tx)
            for worker_id, verdict in (await judge_silence(tx, self.settings.workers)).items():
                log.warning("worker.silent", worker=worker_id, verdict=verdict)

    async def _expire_budgets(self, fence: Fence) -> None:
        async with self.database.transaction() as tx:
            await fence.hold(tx)
            await Budgets().expire(tx)

    async def _archive(self, fence: Fence) -> None:  # noqa: ARG002  safe to run twice: see retention.py
        settings = self.settings.retention
        for table, days in ((STATE_TRANSITIONS, settings.transitions_days), (OUTBOX_EVENTS, settings.events_days)):
            before = self.clock.now() - timedelta(days=days)
            moved = await Archiver(self.database, self.store, table, settings).archive(before=before)
            log.info("retention.archived", table=table.table, rows=moved.rows, files=moved.files)

    async def _sweep_store(self, fence: Fence) -> None:  # noqa: ARG002  deletes only leftovers
        await self.store.sweep(older_than=timedelta(days=1))

    async def _sweep_admissions(self, fence: Fence) -> None:  # noqa: ARG002  safe to run twice: see leftovers.py
        await documents.sweep_admissions(self.desk)

    async def _sweep_tasks(self, fence: Fence) -> None:  # noqa: ARG002  as above
        from penstock.harvest.executing import sweep_tasks  # as above

        await sweep_tasks(self.database, most_attempts=self.settings.harvest.attempts)

    async def _remove_files(self, fence: Fence) -> None:  # noqa: ARG002  as above
        await documents.remove_files(self.desk)


def _to_streams(publisher: StreamPublisher) -> Publish:
    """People are shown events that have a notice; the others concern only our own parts and webhooks."""

    async def publish(events: Sequence[StoredEvent]) -> None:
        await publisher.publish([_stream_event(event) for event in events if event.event.notice])

    return publish


def _stream_event(event: StoredEvent) -> StreamEvent:
    facts = event.event
    dashboards = ("dashboard", f"dashboard:{facts.merchant_id}") if facts.merchant_id else ("dashboard",)
    return StreamEvent(
        event_id=event.event_id,
        topics=(*facts.topics, *dashboards),
        name=facts.notice or "",
        data={**facts.payload, "entity": facts.entity_type, "id": facts.entity_id},
        merchant_id=facts.merchant_id,
    )


@asynccontextmanager
async def started(
    settings: Settings,
    *,
    role: str,
    reactions: Iterable[Reaction] = (),
    plugins: Mapping[str, sinks.Sink] | None = None,
) -> AsyncIterator[Parts]:
    """Open what a role needs; `reactions` and `plugins` come on top of those of this build."""
    async with AsyncExitStack() as stack:
        worker_id = settings.workers.name()
        stack.callback(start_telemetry(role, worker_id, settings.telemetry).close)
        for name in unknown_variables(GROUPS.values()):
            log.warning("settings.unknown_variable", name=name)
        if role == "serve" and not settings.identity.can_check:
            raise SettingsError("No token could be checked: set PENSTOCK_JWT_SECRET or PENSTOCK_JWT_JWKS_URL.")
        if role != "serve" and settings.telemetry.metrics_port:
            stack.enter_context(metrics_server(settings.telemetry.metrics_port, settings.runtime.host))
        clock = SystemClock()
        database = await _open_database(settings, role)
        stack.push_async_callback(database.close)
        redis = connect(_url(settings, "redis"))
        stack.push_async_callback(redis.aclose)
        caller = WebhookCaller(database, settings.webhooks, clock)
        stack.push_async_callback(caller.close)
        identity = Identity(settings.identity, clock)
        stack.push_async_callback(identity.close)
        keys = Keys(settings.runtime.redis_prefix)
        store = await _open_store(settings)
        health = _health(settings, clock, database, redis, store)
        stack.push_async_callback(health.close)
        snapshots = Snapshots(database, {"dashboard": _dashboard_snapshot, "job": documents.job_snapshot})
        hub = StreamHub(StreamReader(redis, keys, settings.streams), snapshots, settings.streams, clock)
        uploads = await _open_uploads(settings, database, clock, worker_id)
        stack.callback(uploads.close)
        if role == "serve":
            hub.start()
            stack.push_async_callback(hub.close)
        parts = Parts(
            settings, worker_id, clock, database, redis, keys, Queue(redis, keys), store, identity, hub, health,
            Receivers(
                Reactions([*REACTIONS, *documents.reactions(settings.documents), *reactions]),
                {**sinks.installed(), **(plugins or {})},
                webhooks.rows_for,
                caller.find,
                _to_streams(StreamPublisher(redis, keys, settings.streams)),
            ),
            uploads, await _examiner(settings, role, stack),
        )  # fmt: skip
        stack.push_async_callback(_close_harvest, parts)
        yield parts


async def _close_harvest(parts: Parts) -> None:
    if "harvest" in vars(parts):  # somebody used it
        await parts.harvest.close()


async def _examiner(settings: Settings, role: str, stack: AsyncExitStack) -> Examiner:
    """Only roles that read PDFs have the processes for it; in others every call is SANDBOX_UNAVAILABLE."""
    sandbox = pdf_sandbox(settings.pdf, settings.sandbox)
    if role in {"serve", "worker"}:
        await sandbox.start()
        stack.push_async_callback(sandbox.close)
    return Examiner(sandbox, settings.pdf)


def _url(settings: Settings, server: str) -> str:
    value: str = getattr(settings.runtime, f"{server}_url").get_secret_value()
    if not value:
        raise SettingsError(
            f"PENSTOCK_{server.upper()}_URL is not set. Set it, or run `penstock up`, which brings its own servers."
        )
    return value


async def _open_database(settings: Settings, role: str) -> Database:
    runtime = settings.runtime
    stall = runtime.stall_seconds.total_seconds()
    database = Database(_url(settings, "database"), name=role, size=runtime.pool_size, stall_seconds=stall)
    await database.open()
    return database


def _store_url(settings: Settings) -> str:
    return settings.runtime.store_url.rstrip("/") or (settings.runtime.home.resolve() / "store").as_uri()


async def _open_store(settings: Settings) -> ObjectStore:
    try:
        return await asyncio.to_thread(open_store, _store_url(settings))
    except (StoreUrlInvalid, OSError) as wrong:
        raise SettingsError(f"PENSTOCK_STORE_URL: {wrong}") from None


async def _open_uploads(settings: Settings, database: Database, clock: Clock, worker_id: str) -> Uploads:
    uploads = Uploads(database, settings.uploads, clock, worker_id, settings.runtime.home.resolve())
    try:
        await asyncio.to_thread(uploads.directory.mkdir, parents=True, exist_ok=True)
    except OSError as wrong:
        raise SettingsError(f"GW_TUS_UPLOAD_DIR: {wrong}") from None
    return uploads


def _health(settings: Settings, clock: Clock, database: Database, redis: Redis, store: ObjectStore) -> Health:
    checks = {
        "database": database_check(database),
        "redis": redis_check(redis),
        "disk": disk_check(settings.runtime.home, settings.health),
        "object_store": store_check(store),
    }
    return Health(checks, clock, vital=frozenset({"database"}))


async def _dashboard_snapshot(tx: Tx, topic: str) -> dict[str, Any]:
    """What a dashboard shows before the first event: jobs by status and, for operators, who is alive."""
    _, _, merchant = topic.partition(":")
    jobs = await documents.jobs_by_status(tx, merchant or None)
    if topic != "dashboard":
        return {"jobs": jobs}
    workers = await all_workers(tx)
    return {"jobs": jobs, "workers": [{"id": row["worker_id"], "status": row["status"]} for row in workers]}
