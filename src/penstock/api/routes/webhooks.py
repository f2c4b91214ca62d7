"""Webhook endpoints of a merchant: list, register, remove; only for callers of that merchant, whatever their role."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.requests import Request

from penstock.api.examples import ENDPOINT_ID, USER, Document, shown
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.openapi import may_fail_with
from penstock.bootstrap import Parts
from penstock.kernel import error_codes, webhooks

router = APIRouter(route_class=GuardedRoute, tags=["webhooks"])

EventType = Annotated[str, StringConstraints(pattern=r"^([a-z][a-z0-9_]*\.)+([a-z][a-z0-9_]*|\*)$", max_length=100)]
_WANTED: Document = {"url": "https://example.com/hook", "event_types": ["job.*"]}
_KNOWN: Document = {"endpoint_id": ENDPOINT_ID, **_WANTED, "created_at": "2026-03-01T16:20:00Z"}
_WELL: Document = {
    "state": "active", "failures": 0, "paused_until": None, "last_error": None,
    "left_out": 0, "left_out_from": None, "left_out_to": None,
}  # fmt: skip
_SECRET = "whsec_bm90IGEgc2VjcmV0OiBhbiBleGFtcGxlIG9mIG9uZQ=="  # noqa: S105  says so itself, decoded


class NewWebhook(BaseModel):
    """What to call, and for which events."""

    model_config = ConfigDict(extra="forbid", **shown(_WANTED))

    url: str = Field(min_length=1, max_length=2000, pattern=r"^[\x21-\x7e]+$")
    event_types: list[EventType] = Field(
        default_factory=list, max_length=100, description="`job.*` takes a family; empty: all"
    )


class Webhook(BaseModel):
    """A registered endpoint."""

    endpoint_id: UUID
    url: str
    event_types: list[str]
    created_by: str
    created_at: datetime
    state: Literal["active", "failing", "paused"] = Field(
        description="`failing`: the last call failed; `paused`: too many failed in a row, and events wait"
    )
    failures: int = Field(description="Failed calls in a row")
    paused_until: datetime | None = Field(description="When a paused endpoint is tried again, with one event")
    last_error: str | None = Field(description="Why the last call failed")
    left_out: int = Field(description="Events that were not kept for it, because too many waited already")
    left_out_from: int | None = Field(description="The first of them")
    left_out_to: int | None = Field(description="The last of them")


class CreatedWebhook(BaseModel):
    """The only time the secret is shown."""

    model_config = shown({**_KNOWN, "secret": _SECRET})

    endpoint_id: UUID
    url: str
    event_types: list[str]
    created_at: datetime
    secret: str = Field(description="Signs every call (Standard Webhooks); keep it")


class Webhooks(BaseModel):
    """The oldest first."""

    model_config = shown({"webhooks": [{**_KNOWN, "created_by": USER, **_WELL}]})

    webhooks: list[Webhook]


@router.get("/api/v1/webhooks", summary="The merchant's webhook endpoints")
async def list_webhooks(request: Request, caller: SignedIn) -> Webhooks:
    """Those that are called now, without their secrets. An endpoint that fails again and again is paused; its events
    wait, and go on when it answers.
    """
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        rows = await webhooks.endpoints(tx, caller.merchant_id)
    return Webhooks(webhooks=[Webhook.model_validate(row) for row in rows])


@router.post(
    "/api/v1/webhooks",
    summary="Register a webhook endpoint",
    status_code=201,
    openapi_extra=may_fail_with(error_codes.WEBHOOK_URL_REFUSED),
)
async def create_webhook(request: Request, caller: SignedIn, body: NewWebhook) -> CreatedWebhook:
    """The first call tells of this registration. Every call is signed; one that is not answered with 2xx comes again,
    under the same `webhook-id`.
    """
    parts: Parts = request.app.state.parts
    # Asks the network, so before the transaction.
    await webhooks.safe_address(body.url, parts.settings.webhooks, caller.merchant_id)
    async with parts.database.transaction() as tx:
        wanted = webhooks.Registration(caller.merchant_id, body.url, tuple(body.event_types), caller.user_id)
        row = await webhooks.register(tx, wanted)
    return CreatedWebhook.model_validate(row)


@router.delete("/api/v1/webhooks/{endpoint_id}", summary="Stop calling an endpoint", status_code=204)
async def delete_webhook(
    request: Request,
    caller: SignedIn,
    endpoint_id: Annotated[UUID, Path(description="From the list of endpoints", examples=[ENDPOINT_ID])],
) -> Response:
    """What is still queued for it is dropped. Registered again, the same address gets a new name and a new secret."""
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        await webhooks.remove(tx, endpoint_id, caller.merchant_id)
    return Response(status_code=204)
