"""A job's event stream: from what is true now to its last event."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock import documents
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.openapi import may_fail_with
from penstock.api.parameters import JobId, LastEventId
from penstock.api.sse import STREAM, event_stream
from penstock.bootstrap import Parts
from penstock.documents.queries import visible_job
from penstock.kernel import error_codes

router = APIRouter(route_class=GuardedRoute, tags=["events"])

_OVER = {"description": "The job has ended and the caller has heard all of it: browsers stop asking"}


@router.get(
    "/api/v1/jobs/{job_id}/events",
    summary="What happens to a job, as it happens",
    response_class=Response,
    responses={**STREAM, 204: _OVER},
    openapi_extra=may_fail_with(
        error_codes.JOB_NOT_FOUND, error_codes.REDIS_UNAVAILABLE, error_codes.SERVICE_UNAVAILABLE
    ),
)
async def follow_job(
    request: Request,
    caller: SignedIn,
    job_id: JobId,
    last_event_id: LastEventId = None,
) -> Response:
    """`page_completed`, `pages_batch_update`, `human_needed`, `job_completed` and `job_failed`, in the order in which
    they happened. It ends with the event that ends the job, or when the token expires or its session is signed out.
    """
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        job = await visible_job(tx, job_id, caller)
    over = last_event_id is not None and await documents.is_over(parts.database, job_id, job["status"])
    if over and await documents.has_heard_all(parts.hub, job_id, last_event_id):
        return Response(status_code=204)
    wanted = documents.follow(job_id, caller.merchant_id, last_event_id)
    signed_out = partial(parts.identity.has_signed_out, caller)
    return event_stream(parts.hub.subscribe(wanted), until=caller.expires_at, signed_out=signed_out)
