"""Deliveries that were given up, and giving one a fresh start."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, Field
from starlette.requests import Request

from penstock.api.examples import ENDPOINT_ID, JOB_ID, MERCHANT, Document, shown
from penstock.api.guard import GuardedRoute, SignedIn
from penstock.api.parameters import Limit, Merchant
from penstock.bootstrap import Parts
from penstock.kernel import audit
from penstock.kernel.deliveries import dead_letters, send_again

router = APIRouter(route_class=GuardedRoute, tags=["operations"])

_LARGEST_ID = 2**63 - 1
_LETTER: Document = {
    "delivery_id": 52,
    "event_id": 1042,
    "event_type": "job.processing",
    "entity_type": "job",
    "entity_id": JOB_ID,
    "merchant_id": MERCHANT,
    "sink": f"webhook:{ENDPOINT_ID}",
    "attempts": 16,
    "last_error": "answered 503",
    "dead_at": "2026-03-02T13:08:57Z",
    "gap_from": None,
    "gap_to": None,
    "gap_events": None,
}


class DeadLetter(BaseModel):
    """An event that one receiver never took."""

    delivery_id: int
    event_id: int
    event_type: str
    entity_type: str
    entity_id: str
    merchant_id: str | None
    sink: str = Field(description="Who should have got it")
    attempts: int
    last_error: str | None
    dead_at: datetime
    gap_from: int | None = Field(description="Set if it stands for events that were left out: the first of them")
    gap_to: int | None = Field(description="The last of them")
    gap_events: int | None = Field(description="How many they are; sent again, each of them is")


class DeadLetters(BaseModel):
    """The newest first."""

    model_config = shown({"deliveries": [_LETTER]})

    deliveries: list[DeadLetter]


class Redelivery(BaseModel):
    """It is due now; a worker will take it within seconds."""

    model_config = shown({"delivery_id": 52, "state": "due"})

    delivery_id: int
    state: Literal["due"] = "due"


@router.get("/api/v1/deliveries", summary="Deliveries that were given up")
async def list_deliveries(
    request: Request,
    state: Annotated[  # noqa: ARG001  the one state that is listed today
        Literal["dead"], Query(description="Only the dead are listed", examples=["dead"])
    ] = "dead",
    merchant: Merchant = None,
    limit: Limit = 100,
) -> DeadLetters:
    """A receiver that refuses is asked again, each time after a longer wait; these are the events for which that was
    given up. Later events of the same subject were delivered without them.
    """
    parts: Parts = request.app.state.parts
    async with parts.database.transaction() as tx:
        rows = await dead_letters(tx, merchant_id=merchant, limit=limit)
    return DeadLetters(deliveries=[DeadLetter.model_validate(row) for row in rows])


@router.post("/api/v1/deliveries/{delivery_id}/redeliver", summary="Send a dead delivery again", status_code=202)
async def redeliver(
    request: Request,
    caller: SignedIn,
    delivery_id: Annotated[int, Path(ge=1, le=_LARGEST_ID, description="A dead delivery", examples=[52])],
) -> Redelivery:
    """Counts its attempts from the beginning, and goes to the audit log. The receiver may get it after newer events."""
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
