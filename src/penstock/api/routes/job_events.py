"""A job's event stream: from what is true now to its last event."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response

from penstock import documents
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.openapi import may_fail_with
from penstock.api.sse import event_stream
from penstock.bootstrap import Parts
from penstock.documents.queries import visible_job
from penstock.kernel import error_codes

router = APIRouter(route_class=GuardedRoute, tags=["events"])

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: a `snapshot` first, then events as they happen, until the job has ended",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'id: 1700000000000-0-0a1b2c3d\nevent: page_completed\ndata: {"page_no": 42}\n\n',
            }
        },
    },
    204: {"description": "The job has ended and the caller has heard all of it: browsers stop asking"},
}


@router.get(
    "/api/v1/jobs/{job_id}/events",
    summary="What happens to a job, as it happens",
    response_class=Response,
    responses=_STREAM,
    openapi_extra=may_fail_with(
        error_codes.JOB_NOT_FOUND, error_codes.REDIS_UNAVAILABLE, error_codes.SERVICE_UNAVAILABLE
    ),
)
async def follow_job(
    request: Request,
    caller: SignedIn,
    job_id: UUID,
    last_event_id: Annotated[
        str | None, Header(max_length=100, description="Sent by browsers when they reconnect: go on from there")
    ] = None,
) -> Response:
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        job = await visible_job(tx, job_id, caller)
    if await documents.has_heard_all(parts.hub, job_id, job["status"], last_event_id):
        return Response(status_code=204)
    wanted = documents.follow(job_id, caller.merchant_id, last_event_id)
    return event_stream(parts.hub.subscribe(wanted), until=caller.expires_at)
