"""The dashboard's event stream: a merchant sees its own, operators and admins see one merchant's or all."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.openapi import may_fail_with
from penstock.api.parameters import LastEventId, Merchant
from penstock.api.sse import STREAM, event_stream
from penstock.bootstrap import Parts
from penstock.kernel import error_codes, streams
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller

router = APIRouter(route_class=GuardedRoute, tags=["events"])


@router.get(
    "/api/v1/dashboard/events",
    summary="What happens, as it happens",
    response_class=Response,
    responses={**STREAM},
    openapi_extra=may_fail_with(
        error_codes.MERCHANT_DENIED, error_codes.REDIS_UNAVAILABLE, error_codes.SERVICE_UNAVAILABLE
    ),
)
async def follow_dashboard(
    request: Request,
    caller: SignedIn,
    merchant: Merchant = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Uploaders and annotators get their own merchant's events; operators and admins everyone's, or one's. It ends
    when the token expires or its session is signed out: come back with a new one and the last `id`.
    """
    parts: Parts = request.app.state.parts
    wanted = streams.Request(
        topic=_topic(caller, merchant), merchant_id=caller.merchant_id, last_event_id=last_event_id
    )
    signed_out = partial(parts.identity.has_signed_out, caller)
    return event_stream(parts.hub.subscribe(wanted), until=caller.expires_at, signed_out=signed_out)


def _topic(caller: Caller, merchant: str | None) -> str:
    if merchant is not None and not caller.sees(merchant):
        raise PenstockError(error_codes.MERCHANT_DENIED, merchant=merchant)
    whose = merchant or (None if caller.sees_all else caller.merchant_id)
    return "dashboard" if whose is None else f"dashboard:{whose}"
