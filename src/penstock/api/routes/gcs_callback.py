"""Where the bucket's notifications arrive.

The token comes first: of a stranger's message not a byte is read. What is let in is acknowledged, whatever came of it,
for it would be no better the next time; only trouble of our own asks for it again.
"""

from typing import Any

import structlog
from fastapi import APIRouter, Response
from starlette.requests import Request

from penstock.api import direct_examples as examples
from penstock.api.guard import GuardedRoute
from penstock.api.openapi import may_fail_with
from penstock.bootstrap import Parts
from penstock.kernel import error_codes
from penstock.kernel.errors import Kind, PenstockError
from penstock.uploads.direct import metrics
from penstock.uploads.direct.callback import receive

log = structlog.get_logger(__name__)
router = APIRouter(route_class=GuardedRoute, tags=["direct uploads"], default_response_class=Response)
_DESCRIBED: dict[str, Any] = {
    "security": [{"bearer": []}],
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": examples.PUSH}},
    },
    **may_fail_with(
        error_codes.TOKEN_MISSING, error_codes.PUSH_TOKEN_INVALID, error_codes.SERVICE_UNAVAILABLE,
        error_codes.DB_UNAVAILABLE, error_codes.DIRECT_UPLOADS_OFF,
    ),
}  # fmt: skip


@router.post(
    "/_/gcs/callback",
    summary="Take a notification of the bucket",
    status_code=204,
    response_description="Acknowledged",
    openapi_extra=_DESCRIBED,
)
async def take_notification(request: Request) -> Response:
    """For the bucket's push subscription alone, whose token is checked: signature, issuer, audience, account. One that
    comes twice, or late, or speaks of an object that nobody announced, is acknowledged and changes nothing.
    """
    parts: Parts = request.app.state.parts
    await _check(parts, request.headers.get("authorization"))
    await receive(parts.direct, await request.body())
    return Response(status_code=204)


async def _check(parts: Parts, authorization: str | None) -> None:
    try:
        await parts.push_tokens.check(authorization)
    except PenstockError as refused:
        if refused.kind is Kind.DENIED:
            metrics.CALLED_BACK.labels("refused").inc()
            log.warning("direct.notification_refused", code=refused.code.code, reason=refused.details.get("reason"))
        raise
