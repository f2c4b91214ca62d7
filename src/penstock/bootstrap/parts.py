"""What is open in a process, and the scheduled work that is done with it."""

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING

import structlog

from penstock import documents
from penstock.bootstrap.settings import Settings
from penstock.documents.checkpoint import Checkpoints
from penstock.documents.orphans import OrphanScan
from penstock.documents.processing import JobRounds, PageProcessor, Workplace
from penstock.extraction.desk import EtlDesk
from penstock.kernel import endpoint_backlog, inbox
from penstock.kernel.breaker import Breaker
from penstock.kernel.budget import Budgets
from penstock.kernel.clock import Clock
from penstock.kernel.confined_calls import ConfinedCalls
from penstock.kernel.db import Database
from penstock.kernel.deliveries import Deliveries, Receivers
from penstock.kernel.health import Health
from penstock.kernel.identity import Identity
from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.queue import Queue
from penstock.kernel.rategate import ForgivingGate, RateGate
from penstock.kernel.redis import Keys, Redis, RedisTrouble
from penstock.kernel.relay import Outlets, Relay
from penstock.kernel.retention import OUTBOX_EVENTS, STATE_TRANSITIONS, Archiver
from penstock.kernel.scheduler import Duty, Fence
from penstock.kernel.streams import (
    StreamHub,
)
from penstock.kernel.turns import Turns
from penstock.kernel.workers import Heartbeat, judge_silence
from penstock.llm.store import LLM_CALLS
from penstock.pdf import Examiner
from penstock.uploads.tus import Expiry, Uploads

if TYPE_CHECKING:
    from penstock.extraction.workshop import Workshop
    from penstock.harvest.desk import HarvestDesk
    from penstock.llm.adapter import Llm
    from penstock.pdf.reader import PageReader
    from penstock.uploads.direct.desk import DirectDesk
    from penstock.uploads.direct.push_tokens import PushTokens

log = structlog.get_logger(__name__)


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
    confined: ConfinedCalls
    etl: EtlDesk

    @property
    def turns(self) -> Turns:
        """The turns of all requests on this process's event loop."""
        return self.uploads.turns

    @cached_property
    def desk(self) -> documents.Desk:
        return documents.Desk(
            self.database, self.store, self.redis, self.keys, self.examiner, self.settings.documents, self.uploads,
            self.settings.store_url, self.worker_id,
        )  # fmt: skip

    @cached_property
    def harvest(self) -> "HarvestDesk":
        from penstock.harvest.desk import HarvestDesk  # slow to import, and not every role needs it

        gate = RateGate(self.redis, self.keys, clock=self.clock, settings=self.settings.gate)
        return HarvestDesk(self.database, gate, self.settings.harvest, self.clock)

    @cached_property
    def llm(self) -> "Llm":
        from penstock.llm.adapter import Guards, Llm  # as above
        from penstock.llm.judge import Judge

        gate = RateGate(self.redis, self.keys, clock=self.clock, settings=self.settings.gate)
        guards = Guards(gate, Breaker(self.redis, self.keys))
        return Llm(self.settings.llm, self.database, guards, Judge(self.confined), self.clock)

    @cached_property
    def reader(self) -> "PageReader":
        from penstock.pdf.reader import PageReader  # as above

        chosen = self.settings
        return PageReader(self.examiner.sandbox, chosen.pdf, chosen.ocr, chosen.sandbox)

    @cached_property
    def workshop(self) -> "Workshop":
        from penstock.bootstrap.etl import make_workshop  # as above

        return make_workshop(self)

    @cached_property
    def direct(self) -> "DirectDesk":
        from penstock.bootstrap.direct import make_desk  # as above

        return make_desk(self)

    @cached_property
    def push_tokens(self) -> "PushTokens":
        from penstock.uploads.direct.push_tokens import PushTokens  # as above

        return PushTokens(self.settings.direct, self.settings.identity, self.clock)

    async def close(self) -> None:
        """What was made at its first use."""
        for name in ("workshop", "reader", "llm", "harvest", "direct", "push_tokens"):
            if name in vars(self):
                await vars(self)[name].close()

    @cached_property
    def limits(self) -> documents.CallLimits:
        gate = ForgivingGate(self.redis, self.keys, clock=self.clock, settings=self.settings.gate)
        return documents.CallLimits(gate, self.settings.documents)

    def relay(self) -> Relay:
        return Relay(
            self.database,
            Outlets(
                self.receivers.publish,
                self.receivers.rows_for,
                self._wake_deliverers,
                partial(endpoint_backlog.bound, most=self.settings.webhooks.most_waiting),
            ),
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
            Duty("etl.sweep", self.settings.etl.sweep_seconds, self._sweep_etl),
            Duty("etl.expire", timedelta(hours=1), self._expire_etl),
            Duty("direct.sweep", self.settings.direct.lease_seconds / 4, self._sweep_direct),
            Duty("retention.forget", timedelta(hours=1), self._forget),
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
        kept = (
            (STATE_TRANSITIONS, settings.transitions_days),
            (OUTBOX_EVENTS, settings.events_days),
            (LLM_CALLS, settings.calls_days),
        )
        for table, days in kept:
            before = self.clock.now() - timedelta(days=days)
            moved = await Archiver(self.database, self.store, table, settings).archive(before=before)
            log.info("retention.archived", table=table.table, rows=moved.rows, files=moved.files)

    async def _forget(self, fence: Fence) -> None:  # noqa: ARG002  deletes only what is too old to matter
        from penstock.uploads.direct.sweeping import forget_dead_messages  # as above

        age = timedelta(days=self.settings.retention.inbox_days)
        messages = await inbox.forget(self.database, age)
        dead = await forget_dead_messages(self.direct)
        log.info("retention.forgot", messages=messages, dead_messages=dead)

    async def _sweep_store(self, fence: Fence) -> None:  # noqa: ARG002  deletes only leftovers
        await self.store.sweep(older_than=timedelta(days=1))

    async def _sweep_admissions(self, fence: Fence) -> None:  # noqa: ARG002  safe to run twice: see leftovers.py
        await documents.sweep_admissions(self.desk)

    async def _sweep_tasks(self, fence: Fence) -> None:  # noqa: ARG002  as above
        from penstock.harvest.executing import sweep_tasks  # as above

        await sweep_tasks(self.database, most_attempts=self.settings.harvest.attempts)

    async def _sweep_etl(self, fence: Fence) -> None:  # noqa: ARG002  as above
        from penstock.extraction.sweep import sweep  # as above

        await sweep(self.etl)

    async def _sweep_direct(self, fence: Fence) -> None:  # noqa: ARG002  as above
        from penstock.uploads.direct.sweeping import sweep  # as above

        await sweep(self.direct)

    async def _expire_etl(self, fence: Fence) -> None:  # noqa: ARG002  as above
        from penstock.extraction.expiry import expire  # as above

        await expire(self.etl)

    async def _remove_files(self, fence: Fence) -> None:  # noqa: ARG002  as above
        await documents.remove_files(self.desk)
