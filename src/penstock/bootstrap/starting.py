"""Opens what a role needs, and closes it in the reverse order."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import asdict, replace
from datetime import UTC
from importlib import import_module
from typing import Any

import structlog

from penstock import documents
from penstock.bootstrap.parts import Parts
from penstock.bootstrap.settings import GROUPS, Settings
from penstock.extraction.desk import EtlDesk
from penstock.extraction.runstate import RunStates
from penstock.kernel import sinks, webhooks
from penstock.kernel.breaker import Breaker
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.confined_calls import SandboxCalls
from penstock.kernel.db import Database, Tx
from penstock.kernel.deliveries import Receivers
from penstock.kernel.events import StoredEvent
from penstock.kernel.health import Check, Health, database_check, disk_check, redis_check, sandbox_check, store_check
from penstock.kernel.identity import EndedSessions, Identity
from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.objectstores import StoreUrlInvalid, open_store
from penstock.kernel.queue import Queue
from penstock.kernel.reactions import Reaction, Reactions
from penstock.kernel.redis import Keys, Redis, connect
from penstock.kernel.relay import Publish
from penstock.kernel.sandbox import Sandbox
from penstock.kernel.settings import SettingsError, unknown_variables
from penstock.kernel.streams import (
    Snapshots,
    StreamEvent,
    StreamHub,
    StreamPublisher,
    StreamReader,
)
from penstock.kernel.telemetry import start_telemetry
from penstock.kernel.telemetry.metrics import metrics_server
from penstock.kernel.webhooks import WebhookCaller
from penstock.kernel.workers import all_workers
from penstock.llm import circuit_check
from penstock.pdf import Examiner, pdf_sandbox
from penstock.uploads.tus import Uploads

log = structlog.get_logger(__name__)

_RULE_MODULES = ("penstock.extraction.rule_calls", "penstock.llm.verdicts")
_WORKER_MODULES = (
    *_RULE_MODULES,
    "penstock.uploads.direct.film",
)  # what is not loaded in advance every call loads anew
REACTIONS: Sequence[Reaction] = ()  # domains add theirs
_READERS = frozenset({"serve", "worker"})  # roles that read strangers' files


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
        data={
            **facts.payload,
            "entity": facts.entity_type,
            "id": facts.entity_id,
            "timestamp": event.occurred_at.astimezone(UTC).isoformat(),
        },
        merchant_id=facts.merchant_id,
    )


@contextmanager
def standing_alone(settings: Settings, *, role: str, worker_id: str = "") -> Iterator[None]:
    """For a role that needs no servers: only its logs, traces and metrics are opened."""
    with ExitStack() as stack:
        stack.callback(start_telemetry(role, worker_id or settings.workers.name(), settings.telemetry).close)
        for name, reason in unknown_variables(GROUPS.values()).items():
            log.warning("settings.unknown_variable", name=name, reason=reason or "there is no such setting")
        if role != "serve" and settings.telemetry.metrics_port:
            stack.enter_context(metrics_server(settings.telemetry.metrics_port, settings.runtime.host))
        yield


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
        stack.enter_context(standing_alone(settings, role=role, worker_id=worker_id))
        _refuse_open_door(settings, role)
        clock = SystemClock()
        database = await _open_database(settings, role)
        stack.push_async_callback(database.close)
        redis = connect(_url(settings, "redis"))
        stack.push_async_callback(redis.aclose)
        caller = WebhookCaller(database, settings.webhooks, clock)
        stack.push_async_callback(caller.close)
        identity = Identity(settings.identity, clock, EndedSessions(database, clock))
        stack.push_async_callback(identity.close)
        keys = Keys(settings.runtime.redis_prefix)
        store = await _open_store(settings)
        examiner, rule_calls = await _sandboxes(settings, role, stack)
        weak = {"sandbox": sandbox_check(examiner.sandbox)} if role in _READERS else {}
        health = Health(_checks(settings, database, redis, store) | weak, clock, vital=frozenset({"database"}))
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
            uploads, examiner, rule_calls,
            _etl_desk(settings, database, redis, (store, uploads), stack),
        )  # fmt: skip
        stack.push_async_callback(parts.close)
        if role in _READERS:
            parts.direct  # noqa: B018  made now: settings that could never work are told before anything runs
        yield parts


def _refuse_open_door(settings: Settings, role: str) -> None:
    if role == "serve" and not settings.identity.can_check:
        raise SettingsError("No token could be checked: set PENSTOCK_JWT_SECRET or PENSTOCK_JWT_JWKS_URL.")


def _etl_desk(
    settings: Settings, database: Database, redis: Redis, places: tuple[ObjectStore, Uploads], stack: AsyncExitStack
) -> EtlDesk:
    """With a Redis of its own, if it has one."""
    store, uploads = places
    etl, keys = settings.etl, Keys(settings.runtime.redis_prefix)
    if url := etl.redis_url.get_secret_value():
        redis = connect(url)
        stack.push_async_callback(redis.aclose)
    states = RunStates(redis, keys, etl, SystemClock())
    queue, keep_free = Queue(redis, keys, etl.arq_queue_name), settings.uploads.tus_keep_free_bytes
    return EtlDesk(database, store, queue, states, etl, uploads.directory, keep_free)


async def _sandboxes(settings: Settings, role: str, stack: AsyncExitStack) -> tuple[Examiner, SandboxCalls]:
    """Opens the pools that look into PDFs and that check and apply rules.

    Only roles that read PDFs have the processes for it; in others every call is SANDBOX_UNAVAILABLE. A worker applies
    rules where it reads; elsewhere they have a pool of their own, started with the first rule, so that neither waits
    for the other.
    """
    is_worker = role == "worker"
    sandbox = pdf_sandbox(
        settings.pdf, settings.sandbox, reads_pages=is_worker, also=_WORKER_MODULES if is_worker else ()
    )  # fmt: skip
    if role in _READERS:
        import_module("penstock.bootstrap.etl")  # now, or the first rule's request would hold up all others meanwhile
        await sandbox.start()
        stack.push_async_callback(sandbox.close)
    limits = settings.etl.rule_limits()
    if is_worker:
        limits = replace(limits, memory=min(limits.memory, sandbox.limits.memory))
        return Examiner(sandbox, settings.pdf), SandboxCalls(sandbox, limits)
    own = Sandbox(settings.sandbox.model_copy(update=asdict(limits)), preload=_RULE_MODULES)
    calls = SandboxCalls(own, limits, starts=True)
    stack.push_async_callback(calls.close)
    return Examiner(sandbox, settings.pdf), calls


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
    database.has_long_transactions = role != "executor"
    await database.open()
    return database


async def _open_store(settings: Settings) -> ObjectStore:
    try:
        return await asyncio.to_thread(open_store, settings.store_url)
    except (StoreUrlInvalid, OSError) as wrong:
        raise SettingsError(f"PENSTOCK_STORE_URL: {wrong}") from None


async def _open_uploads(settings: Settings, database: Database, clock: Clock, worker_id: str) -> Uploads:
    uploads = Uploads(database, settings.uploads, clock, worker_id, settings.runtime.home.resolve())
    try:
        await uploads.prepare()
    except OSError as wrong:
        raise SettingsError(f"GW_TUS_UPLOAD_DIR: {wrong}") from None
    return uploads


def _checks(settings: Settings, database: Database, redis: Redis, store: ObjectStore) -> dict[str, Check]:
    checks = {
        "database": database_check(database),
        "redis": redis_check(redis),
        "disk": disk_check(settings.runtime.home, settings.health),
        "object_store": store_check(store),
    }
    if settings.llm.is_configured:
        checks["llm"] = circuit_check(Breaker(redis, Keys(settings.runtime.redis_prefix)), settings.llm)
    return checks


async def _dashboard_snapshot(tx: Tx, topic: str) -> dict[str, Any]:
    """What a dashboard shows before the first event: jobs by status and, for operators, who is alive."""
    _, _, merchant = topic.partition(":")
    jobs = await documents.jobs_by_status(tx, merchant or None)
    if topic != "dashboard":
        return {"jobs": jobs}
    workers = await all_workers(tx)
    return {"jobs": jobs, "workers": [{"id": row["worker_id"], "status": row["status"]} for row in workers]}
