"""The dashboard's event stream: a merchant sees its own, operators and admins see one merchant's or all."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from penstock.api.guard import GuardedRoute, MerchantId, SignedIn
from penstock.api.openapi import may_fail_with
from penstock.api.sse import event_stream
from penstock.bootstrap import Parts
from penstock.kernel import error_codes, streams
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller

router = APIRouter(route_class=GuardedRoute, tags=["events"])

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events: a `snapshot` first, then events as they happen, a `heartbeat` when quiet",
        "content": {
            "text/event-stream": {
                "schema": {"type": "string"},
                "example": 'id: 1700000000000-0-0a1b2c3d\nevent: job_completed\ndata: {"job_id": "…"}\n\n',
            }
        },
    }
}


@router.get(
    "/api/v1/dashboard/events",
    summary="What happens, as it happens",
    response_class=Response,
    responses=_STREAM,
    openapi_extra=may_fail_with(
        error_codes.MERCHANT_DENIED, error_codes.REDIS_UNAVAILABLE, error_codes.SERVICE_UNAVAILABLE
    ),
)
async def follow_dashboard(
    request: Request,
    caller: SignedIn,
    merchant: Annotated[MerchantId | None, Query(description="Whose events")] = None,
    last_event_id: Annotated[
        str | None, Header(max_length=100, description="Sent by browsers when they reconnect: go on from there")
    ] = None,
) -> Response:
    """Uploaders and annotators get their own merchant's events; operators and admins everyone's, or one's."""
    parts: Parts = request.app.state.parts
    wanted = streams.Request(
        topic=_topic(caller, merchant), merchant_id=caller.merchant_id, last_event_id=last_event_id
    )
    return event_stream(parts.hub.subscribe(wanted), until=caller.expires_at)


def _topic(caller: Caller, merchant: str | None) -> str:
    if merchant is not None and not caller.sees(merchant):
        raise PenstockError(error_codes.MERCHANT_DENIED, merchant=merchant)
    whose = merchant or (None if caller.sees_all else caller.merchant_id)
    return "dashboard" if whose is None else f"dashboard:{whose}"
