"""Parameters that many routes have, each described once."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from fastapi import Header, Path, Query
from pydantic import AfterValidator, StringConstraints

from penstock.api import examples
from penstock.api.guard import MerchantId

JobId = Annotated[UUID, Path(description="The job, by the name it got when it was made", examples=[examples.JOB_ID])]
PageNumber = Annotated[int, Path(ge=1, le=100_000, description="The page of the file, from 1", examples=[1])]
Cursor = Annotated[
    str | None,
    Query(
        max_length=1000,
        description="`next_cursor` of the part before, with the same question",
        examples=[examples.CURSOR],
    ),
]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at the most", examples=[100])]
Merchant = Annotated[
    MerchantId | None,
    Query(
        description="Only of this merchant; another than one's own is for operators and admins",
        examples=[examples.MERCHANT],
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="Makes a repeat safe: one key, one outcome; for 24 h and more",
        examples=["order-2026-03-02-1"],
    ),
]
LastEventId = Annotated[
    str | None,
    Header(
        max_length=100,
        description="The `id` of the last event that was read: go on from there. Browsers send it when they reconnect",
        examples=[examples.LAST_EVENT_ID],
    ),
]

# --- harvest -----------------------------------------------------------------------------------------------
LARGEST_ID = 2**63 - 1
Code = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]  # of a source or an endpoint
RecordId = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"^[^\x00]+$")]
_SOURCE = {"description": "A source, by its code", "examples": ["crossref"]}
_ENDPOINT = {"description": "One of the source's endpoints", "examples": ["works"]}
SourcePath = Annotated[Code, Path(**_SOURCE)]
EndpointPath = Annotated[Code, Path(**_ENDPOINT)]
OneSource = Annotated[Code, Query(**_SOURCE)]
AnySource = Annotated[Code | None, Query(**_SOURCE)]
AnyEndpoint = Annotated[Code | None, Query(**_ENDPOINT)]


def _within_reason(moment: datetime) -> datetime:
    """In UTC; without a zone it is UTC already. Further off, no calendar of a source goes."""
    try:
        found = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        found = None
    if found is None or not 1900 <= found.year < 2200:
        raise ValueError("must lie between the years 1900 and 2200")
    return found


Moment = Annotated[datetime, AfterValidator(_within_reason)]
