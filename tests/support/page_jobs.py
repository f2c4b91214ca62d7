"""Jobs with pages, and the workers that go through them, as the rest of the product would leave them."""

from datetime import timedelta
from uuid import UUID, uuid4

from penstock.documents.orphan_settings import OrphanSettings
from penstock.documents.orphans import OrphanScan
from penstock.kernel.db import Database, fetch_all, fetch_one
from penstock.kernel.errors import Language
from penstock.kernel.scheduler import Duty, Scheduler, SchedulerSettings

TTL = timedelta(seconds=90)


async def add_job(database: Database, pages: int = 3, *, status: str = "EVALUATED", worker: str | None = None) -> UUID:
    async with database.transaction() as tx:
        row = await fetch_one(
            tx,
            "insert into pdf_jobs (source_file, file_hash, merchant_id, uploaded_by, status, route, worker_id,"
            " total_pages, file_size, orphaned_at) values ('a.pdf', %(hash)s, 'm-1', 'alice', %(status)s, 'AUTO',"
            " %(worker)s, %(pages)s, 1, case when %(status)s = 'ORPHANED' then now() end) returning job_id",
            {"hash": uuid4().hex, "status": status, "worker": worker, "pages": pages},
        )
        await tx.execute(
            "insert into pages (job_id, page_number, status) select %s, n, 'PENDING' from generate_series(1, %s) n",
            (row["job_id"], pages),
        )
    return row["job_id"]


async def add_worker(database: Database, name: str, status: str = "ALIVE", *, takes_jobs: bool = True) -> str:
    async with database.transaction() as tx:
        await tx.execute(
            "insert into worker_heartbeats (worker_id, hostname, status, takes_jobs) values (%s, 'h', %s, %s)"
            " on conflict (worker_id) do update set status = excluded.status",
            (name, status, takes_jobs),
        )
    return name


async def job_row(database: Database, job_id: UUID) -> dict:
    async with database.transaction() as tx:
        return await fetch_one(tx, "select * from pdf_jobs where job_id = %s", (job_id,))


async def page_states(database: Database, job_id: UUID) -> list[str]:
    async with database.transaction() as tx:
        rows = await fetch_all(tx, "select status from pages where job_id = %s order by page_number", (job_id,))
    return [row["status"] for row in rows]


async def rows(database: Database, query: str, *values) -> list[dict]:
    async with database.transaction() as tx:
        return await fetch_all(tx, query, values)


async def age_orphan(database: Database, job_id: UUID, seconds: int) -> None:
    await _execute(
        database,
        "update pdf_jobs set orphaned_at = now() - make_interval(secs => %s) where job_id = %s",
        seconds,
        job_id,
    )


async def _execute(database: Database, query: str, *values) -> None:
    async with database.transaction() as tx:
        await tx.execute(query, values)


def scheduler(database: Database, owner: str = "s1", **settings) -> Scheduler:
    """One that has only the scan to do."""
    scan = OrphanScan(database, OrphanSettings(**settings), TTL, Language.EN)
    duty = Duty("documents.orphans", timedelta(seconds=60), scan.run)
    return Scheduler(database, [duty], SchedulerSettings(), owner=owner)


async def scan(database: Database, **settings) -> None:
    """One scan, as the scheduler runs it; raises what it stumbled over."""
    made = scheduler(database, **settings)
    await made.enrol()
    await _execute(database, "update schedule set next_run_at = now() - interval '1 second'")
    [run] = await made.start_due()
    await run
    [row] = await rows(database, "select last_error from schedule where name = 'documents.orphans'")
    assert row["last_error"] is None
