"""The edge's parts, made of real servers, for tests that speak HTTP or gRPC."""

import contextlib
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from penstock.documents import CallLimits, Desk, DocumentSettings, job_snapshot
from penstock.documents.orphan_settings import OrphanSettings
from penstock.extraction.desk import EtlDesk
from penstock.extraction.ports import Tools
from penstock.extraction.processors.by_rules import RulesProcessor
from penstock.extraction.processors.llm import LlmProcessor
from penstock.extraction.processors.skip import SkipProcessor
from penstock.extraction.providers import ocr_providers, post_processors
from penstock.extraction.runstate import RunStates
from penstock.extraction.settings import EtlSettings
from penstock.extraction.workshop import Equipment, Shelves, Workshop
from penstock.harvest.desk import HarvestDesk
from penstock.harvest.settings import HarvestSettings
from penstock.kernel.breaker import Breaker
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.confined_calls import DirectCalls
from penstock.kernel.db import Database, Tx
from penstock.kernel.health import Health, HealthSettings, database_check, disk_check, redis_check
from penstock.kernel.identity import Caller, EndedSessions, Identity, IdentitySettings, Role, issue_token
from penstock.kernel.objectstores import LocalStore
from penstock.kernel.queue import Queue
from penstock.kernel.rategate import ForgivingGate, RateGate
from penstock.kernel.redis import Keys, Redis
from penstock.kernel.runtime import RuntimeSettings
from penstock.kernel.sandbox import SandboxSettings
from penstock.kernel.streams import Snapshots, StreamHub, StreamReader, StreamSettings
from penstock.kernel.telemetry.settings import TelemetrySettings
from penstock.kernel.turns import Turns
from penstock.kernel.webhooks import WebhookSettings
from penstock.llm.adapter import Guards, Llm
from penstock.llm.examples import Examples
from penstock.llm.judge import Judge
from penstock.llm.settings import LlmSettings
from penstock.pdf import Examiner, PdfSettings, pdf_sandbox
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.push_tokens import PushTokens
from penstock.uploads.direct.settings import DirectSettings
from penstock.uploads.tus import Uploads, UploadSettings
from tests.support.rule_places import HERE
from tests.support.shelf import ShelfBucket

_random = random.SystemRandom()  # tests may seed the other
SECRET = "a secret of at least thirty-two bytes"


@dataclass(frozen=True)
class EdgeSettings:
    runtime: RuntimeSettings
    identity: IdentitySettings
    webhooks: WebhookSettings
    documents: DocumentSettings
    orphans: OrphanSettings = field(default_factory=OrphanSettings)
    etl: EtlSettings = field(default_factory=EtlSettings)
    direct: DirectSettings = field(default_factory=lambda: DirectSettings(bucket_url="gs://shelf"))
    telemetry: TelemetrySettings = field(default_factory=lambda: TelemetrySettings(metrics_shared_sec=0))


@dataclass(frozen=True)
class EdgeParts:
    settings: EdgeSettings
    clock: Clock
    database: Database
    identity: Identity
    health: Health
    hub: StreamHub
    uploads: Uploads
    desk: Desk
    limits: CallLimits
    harvest: HarvestDesk
    etl: EtlDesk
    workshop: Workshop
    direct: DirectDesk
    push_tokens: PushTokens

    @property
    def turns(self) -> Turns:
        return self.uploads.turns


@asynccontextmanager
async def edge_parts(database: Database, redis: Redis, keys: Keys, **runtime: Any) -> AsyncIterator[EdgeParts]:
    clock = SystemClock()
    where = RuntimeSettings(**{"port": free_port(), "grpc_port": free_port(), **runtime})
    identity_settings = IdentitySettings(secret=SECRET)
    documents = DocumentSettings(
        api_rate_per_sec=10_000,
        api_burst=10_000,
        upload_rate_per_sec=10_000,
        upload_burst=10_000,
        job_rate_per_min=10_000,
        job_burst=10_000,
        admissions_per_merchant=100,
    )
    settings = EdgeSettings(where, identity_settings, WebhookSettings(allow_private=True), documents)
    checks = {
        "database": database_check(database),
        "redis": redis_check(redis),
        "disk": disk_check(where.home, HealthSettings(disk_low=2, disk_full=1)),
    }
    health = Health(checks, clock, vital=frozenset({"database"}))
    hub = StreamHub(
        StreamReader(redis, keys, StreamSettings()),
        Snapshots(database, {"dashboard": _topic_name, "job": job_snapshot}),
        StreamSettings(),
        clock,
    )
    identity = Identity(identity_settings, clock, EndedSessions(database, clock))
    limits = CallLimits(ForgivingGate(redis, keys, clock=clock), documents)
    with TemporaryDirectory(prefix="penstock-edge-") as name:
        place = Path(name)
        (place / "uploads").mkdir()
        upload_settings = UploadSettings(tus_upload_dir=place / "uploads", tus_chunk_timeout_sec=timedelta(seconds=5))
        uploads = Uploads(database, upload_settings, clock, "edge", where.home)
        store, address = LocalStore(place / "store"), (place / "store").as_uri()
        desk = Desk(database, store, redis, keys, _nobody(), documents, uploads, address, "edge-1")
        harvest = HarvestDesk(database, RateGate(redis, keys, clock=clock), HarvestSettings(), clock)
        guards = Guards(harvest.gate, Breaker(redis, keys))
        etl, llm = _etl(settings.etl, desk), Llm(LlmSettings(), database, guards, Judge(DirectCalls()), clock)
        shop = _workshop(etl, llm, desk)
        direct = DirectDesk(database, ShelfBucket(), settings.direct, clock, Queue(redis, keys), "edge-1")
        pushes = PushTokens(settings.direct, identity_settings, clock)
        yield EdgeParts(
            settings, clock, database, identity, health, hub, uploads, desk, limits, harvest, etl, shop, direct, pushes
        )
        await pushes.close()
        await llm.close()
        await harvest.close()
        uploads.close()
    await hub.close()
    await health.close()
    await identity.close()


def _etl(settings: EtlSettings, desk: Desk) -> EtlDesk:
    """Nobody takes from its queue."""
    states = RunStates(desk.redis, desk.keys, settings, SystemClock())
    queue = Queue(desk.redis, desk.keys, settings.arq_queue_name)
    return EtlDesk(desk.database, desk.store, queue, states, settings, desk.uploads.directory)


def _workshop(etl: EtlDesk, llm: Llm, desk: Desk) -> Workshop:
    """It reads nothing, and there is no model; rules can be tried."""

    async def uncounted(_path: Path, _media_type: str) -> int:
        raise AssertionError("nothing is read here")

    processors = post_processors(
        llm=lambda _tools: LlmProcessor(llm, HERE, etl.settings),
        skip=lambda _tools: SkipProcessor(),
        rules=lambda _tools: RulesProcessor(HERE),
    )
    tools = Tools(SystemClock(), uncounted, llm)
    examples = Examples(desk.redis, desk.keys)
    return Workshop(
        etl, Equipment(desk.examiner, tools, Shelves(ocr_providers(), processors), examples, HERE), "edge-1"
    )


def _nobody() -> Examiner:
    """Its sandbox is not started: every call is SANDBOX_UNAVAILABLE. Tests that read files bring their own."""
    return Examiner(pdf_sandbox(PdfSettings(), SandboxSettings()), PdfSettings())


def token(
    role: Role | str = Role.UPLOADER, merchant: str = "m-1", *, seconds: float = 60, act_for: tuple[str, ...] = ()
) -> str:
    return issue_token(SECRET, Caller("alice", merchant, Role(role), act_for=act_for), timedelta(seconds=seconds))


def bearer(role: Role | str = Role.UPLOADER, merchant: str = "m-1", **more: Any) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(role, merchant, **more)}"}


def free_port() -> int:
    """Outside the range from which systems give ports by themselves: nobody gets this one before it is used."""
    while True:
        port = _random.randint(12_000, 31_999)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


async def _topic_name(_tx: Tx, topic: str) -> dict[str, Any]:
    return {"topic": topic}
