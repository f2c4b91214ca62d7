"""An operator gives an orphaned job to a living worker."""

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from penstock.api.examples import JOB_ID, WORKER, shown
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.openapi import may_fail_with
from penstock.api.parameters import JobId
from penstock.bootstrap import Parts
from penstock.documents.requeue import Wish, note_requeued, requeue
from penstock.kernel import audit, error_codes

router = APIRouter(route_class=GuardedRoute, tags=["operations"])


class RequeueOrder(BaseModel):
    """All of it may be left out."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"target_worker": WORKER}, {}]})

    target_worker: str | None = Field(
        None,
        min_length=1,
        max_length=255,
        description="A living worker that takes jobs; default: the one with the fewest",
    )
    force: bool = Field(False, description="Go on although the job was requeued too often within 24 hours")


class RequeuedJob(BaseModel):
    """The worker finds the job within a second and goes on after page `resume_from`."""

    model_config = shown(
        {"job_id": JOB_ID, "status": "PROCESSING", "worker_id": WORKER, "resume_from": 2, "requeues_today": 1}
    )

    job_id: UUID
    status: Literal["PROCESSING"] = "PROCESSING"
    worker_id: str
    resume_from: int = Field(description="All pages up to this one are done")
    requeues_today: int = Field(description="Within 24 hours, with this one")


@router.post(
    "/api/v1/jobs/{job_id}/requeue",
    summary="Give an orphaned job to a living worker",
    openapi_extra=may_fail_with(
        error_codes.JOB_NOT_FOUND,
        error_codes.JOB_NOT_ORPHANED,
        error_codes.WORKER_NOT_ALIVE,
        error_codes.REQUEUE_LIMIT,
        error_codes.NO_LIVING_WORKER,
    ),
)
async def requeue_job(
    request: Request, caller: SignedIn, job_id: JobId, order: Annotated[RequeueOrder | None, Body()] = None
) -> RequeuedJob:
    """Pages that are done stay done. Orphans are also requeued without being asked; after too many times in 24 hours
    only this call with `force` does it. It goes to the audit log.
    """
    parts: Parts = request.app.state.parts
    wanted = order or RequeueOrder()
    wish = Wish("manual", caller.user_id, wanted.target_worker, wanted.force)
    async with parts.database.transaction() as tx:
        given = await requeue(tx, job_id, wish, parts.settings.orphans)
        await audit.record(
            tx,
            audit.Entry(
                actor=caller.user_id,
                role=caller.role.value,
                action="requeue_job",
                merchant_id=given.merchant_id,
                subject=f"job:{job_id}",
                details={
                    "to_worker": given.to_worker,
                    "resume_from": given.resumed_from,
                    "requeues_today": given.requeues_today,
                    "forced": wanted.force,
                },
                request_id=request.state.request_id,
            ),
        )
    note_requeued(given, "manual")
    return RequeuedJob(
        job_id=job_id,
        worker_id=given.to_worker,
        resume_from=given.resumed_from,
        requeues_today=given.requeues_today,
    )
