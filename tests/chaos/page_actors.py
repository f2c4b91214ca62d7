"""The real worker and scheduler roles; the worker's processor writes down every page it lays its hands on."""

import asyncio
import os
import signal
import sys
from uuid import uuid4

from penstock.bootstrap import Parts, load_settings, started
from penstock.documents.pagework import Done, HeldPage, Hold, assert_holds
from penstock.documents.states import JOB, JobStatus
from penstock.kernel.db import Tx
from penstock.kernel.statemachine import Step, move
from penstock.worker import run_scheduler, run_worker


class Copyist:
    """Every work on a page leaves a row in `page_worked` at once; a completed page gives one record."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._seconds = float(os.environ.get("PAGE_SECONDS", "0.1"))

    async def work_on(self, page: HeldPage) -> Done:
        nonce, job_id = uuid4().hex, page.hold.job_id
        async with self._parts.database.transaction() as tx:
            await tx.execute(
                "insert into page_worked (nonce, job_id, page_no, worker) values (%s, %s, %s, %s)",
                (nonce, job_id, page.number, self._parts.worker_id),
            )
        await asyncio.sleep(self._seconds)

        async def write(tx: Tx) -> None:
            await tx.execute(
                "insert into skus (sku_id, job_id, page_number, validity, attributes)"
                " values (%s, %s, %s, 'valid', '{}')",
                (nonce, job_id, page.number),
            )

        return Done(1, 0.9, write=write)

    async def finish(self, hold: Hold) -> None:
        async with self._parts.database.transaction() as tx:
            await assert_holds(tx, hold)
            step = Step(
                str(hold.job_id), JobStatus.PROCESSING, JobStatus.FULL_IMPORTED, by="pipeline", trigger="copied"
            )
            await move(tx, JOB, step)


async def main(role: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with started(load_settings(), role=role) as parts:
        if role == "worker":
            await run_worker(parts, stop, processor=Copyist(parts))
        else:
            await run_scheduler(parts, stop)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
