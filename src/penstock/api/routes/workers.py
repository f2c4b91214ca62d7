"""The processes that do the work, as they last reported."""

from datetime import datetime
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request

from penstock.api.guard import GuardedRoute
from penstock.bootstrap import Parts
from penstock.kernel.workers import WorkerStatus, all_workers

router = APIRouter(route_class=GuardedRoute, tags=["operations"])


class Worker(BaseModel):
    """One process and its last sign of life."""

    worker_id: str = Field(examples=["host-1-4711-a1b2c3"])
    hostname: str
    status: WorkerStatus
    started_at: datetime
    last_heartbeat: datetime
    active_job_ids: list[UUID]
    version: str | None
    takes_jobs: bool = Field(description="Whether it goes through pages, so that jobs can be given to it")


class Workers(BaseModel):
    """The latest sign of life first."""

    workers: list[Worker]


@router.get("/api/v1/workers", summary="Which processes are alive")
async def list_workers(request: Request) -> Workers:
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        return Workers(workers=[Worker.model_validate(row) for row in await all_workers(tx)])
