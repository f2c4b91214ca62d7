"""Parameters that many routes have, each described once."""

from typing import Annotated
from uuid import UUID

from fastapi import Header, Path, Query

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
OtherMerchant = Annotated[
    MerchantId | None,
    Query(description="Act for another merchant; goes to the audit log", examples=[examples.MERCHANT]),
]
LastEventId = Annotated[
    str | None,
    Header(
        max_length=100,
        description="The `id` of the last event that was read: go on from there. Browsers send it when they reconnect",
        examples=[examples.LAST_EVENT_ID],
    ),
]
