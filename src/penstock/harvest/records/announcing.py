"""Stored versions, told to whoever listens: `record.changed`, up to 50 records an event, without their bodies.

The events of an endpoint share one ordering key: a receiver sees the versions of a record in order. What identifies a
change for good is the record's id and its revision.
"""

from collections.abc import Iterator, Sequence

from penstock.harvest.page import Page
from penstock.harvest.records.counting import Place
from penstock.kernel.db import Tx
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce
from penstock.kernel.statemachine import MOST_IN_AN_EVENT

EVENT_TYPE = "record.changed"


async def announce_changes(tx: Tx, place: Place, page: Page, changes: Sequence[tuple[int, int]]) -> None:
    """`changes`: position in the page and revision."""
    await announce(tx, *_events(place, page, changes))


def _events(place: Place, page: Page, changes: Sequence[tuple[int, int]]) -> Iterator[Event]:
    about = f"{place.provenance_code}/{place.endpoint_name}"
    told = [
        {
            "id": f"{about}/{page.ids[position]}",
            "providerId": page.ids[position],
            "updatedAt": page.updated[position],
            "revision": revision,
            "isDeleted": bool(page.deleted and page.deleted[position]),
        }
        for position, revision in changes
    ]
    for start in range(0, len(told), MOST_IN_AN_EVENT):
        yield Event(
            event_type=EVENT_TYPE,
            entity_type="endpoint",
            entity_id=about,
            payload={
                "source": place.provenance_code,
                "endpoint": place.endpoint_name,
                "runId": place.run_id,
                "batchNo": place.batch_no,
                "records": told[start : start + MOST_IN_AN_EVENT],
            },
        )
