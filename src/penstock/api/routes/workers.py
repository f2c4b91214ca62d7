"""The processes that do the work, as they last reported."""

from datetime import datetime
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request

import penstock
from penstock.api.examples import JOB_ID, WORKER, Document, shown
from penstock.api.guard import GuardedRoute
from penstock.bootstrap import Parts
from penstock.kernel.workers import WorkerStatus, all_workers

router = APIRouter(route_class=GuardedRoute, tags=["operations"])

_WORKER: Document = {
    "worker_id": WORKER,
    "hostname": "host-1",
    "status": "ALIVE",
    "started_at": "2026-03-02T08:00:00Z",
    "last_heartbeat": "2026-03-02T09:01:12Z",
    "active_job_ids": [JOB_ID],
    "version": penstock.__version__,
    "takes_jobs": True,
}


class Worker(BaseModel):
    """One process and its last sign of life."""

    worker_id: str
    hostname: str
    status: WorkerStatus
    started_at: datetime
    last_heartbeat: datetime
    active_job_ids: list[UUID]
    version: str | None
    takes_jobs: bool = Field(description="Whether it goes through pages, so that jobs can be given to it")


class Workers(BaseModel):
    """The latest sign of life first."""

    model_config = shown({"workers": [_WORKER]})

    workers: list[Worker]


@router.get("/api/v1/workers", summary="Which processes are alive")
async def list_workers(request: Request) -> Workers:
    """Workers and schedulers; the servers of the API do not report. `SUSPECT` after 60 s of silence, `DEAD` after 90 s;
    the dead are listed for a day.
    """
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        return Workers(workers=[Worker.model_validate(row) for row in await all_workers(tx)])
