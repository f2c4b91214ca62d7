"""Deliveries that were given up, and giving one a fresh start."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from penstock.api.guard import GuardedRoute, MerchantId, SignedIn
from penstock.bootstrap import Parts
from penstock.kernel import audit
from penstock.kernel.deliveries import dead_letters, send_again

router = APIRouter(route_class=GuardedRoute, tags=["operations"])

_LARGEST_ID = 2**63 - 1


class DeadLetter(BaseModel):
    """An event that one receiver never took."""

    delivery_id: int
    event_id: int
    event_type: str = Field(examples=["job.completed"])
    entity_type: str
    entity_id: str
    merchant_id: str | None
    sink: str = Field(description="Who should have got it", examples=["webhook:6f1c…"])
    attempts: int
    last_error: str | None
    dead_at: datetime


class DeadLetters(BaseModel):
    """The newest first."""

    deliveries: list[DeadLetter]


class Redelivery(BaseModel):
    """It is due now; a worker will take it within seconds."""

    delivery_id: int
    state: Literal["due"] = "due"


@router.get("/api/v1/deliveries", summary="Deliveries that were given up")
async def list_deliveries(
    request: Request,
    state: Literal["dead"] = "dead",  # noqa: ARG001  the one state that is listed today
    merchant: MerchantId | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> DeadLetters:
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        rows = await dead_letters(tx, merchant_id=merchant, limit=limit)
    return DeadLetters(deliveries=[DeadLetter.model_validate(row) for row in rows])


@router.post("/api/v1/deliveries/{delivery_id}/redeliver", summary="Send a dead delivery again", status_code=202)
async def redeliver(
    request: Request, caller: SignedIn, delivery_id: Annotated[int, Path(ge=1, le=_LARGEST_ID)]
) -> Redelivery:
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        await send_again(tx, delivery_id)
        await audit.record(
            tx,
            audit.Entry(
                actor=caller.user_id,
                role=caller.role.value,
                action="redeliver_event",
                subject=f"delivery:{delivery_id}",
                request_id=request.state.request_id,
            ),
        )
    return Redelivery(delivery_id=delivery_id)
