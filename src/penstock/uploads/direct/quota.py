"""Limits what a merchant's open direct uploads may take of the bucket.

**The row is the reservation**, as with tus: an open upload counts with the size that it announced, or, if it announced
none, with the largest file that is taken. It stops to count when it is complete, has failed or was given up.

The function `catalog.direct_open` adds up a merchant's open uploads, and first takes a lock that is held until the
transaction ends: whoever begins at the same time counts what the other has begun. Uploads that are announced again
are no new ones, take no lock and are never refused.
"""

from collections.abc import Mapping
from typing import Any

from penstock.kernel import error_codes
from penstock.kernel.db import Tx, fetch_one
from penstock.kernel.errors import PenstockError
from penstock.uploads.direct.settings import DirectSettings

_RETRY_AFTER_SEC = 60

# Of the rows `given` those that are new, smallest first, each with how many uploads and bytes its merchant has open
# when all up to it have begun. Locks are taken in the order of merchants, all of them before the first row is written:
# nobody waits in a circle. Who gets no row tries again alone: one of the others may have been no new one after all.
QUEUED_FOR_ROOM = (
    "with fresh as materialized (select distinct on (user_id, content_md5) *,"
    "  case expected_size when 0 then %(unknown_bytes)s else expected_size end as own from given where not exists"
    "  (select 1 from catalog.uploads known where known.user_id = given.user_id"
    "   and known.content_md5 = given.content_md5)),"
    " held as materialized (select whose.merchant_id, open.uploads, open.bytes"
    "  from (select distinct merchant_id from fresh order by merchant_id) whose"
    "  cross join lateral catalog.direct_open(whose.merchant_id, %(unknown_bytes)s) open),"
    " queued as (select fresh.*, held.uploads + row_number() over up_to_it as uploads,"
    "  held.bytes + sum(own) over up_to_it as bytes from fresh join held using (merchant_id)"
    "  window up_to_it as (partition by merchant_id order by own, upload_id rows unbounded preceding))"
)


def limits(settings: DirectSettings) -> dict[str, int]:
    """What the statement that begins uploads must know."""
    return {
        "most_uploads": settings.open_per_merchant,
        "most_bytes": int(settings.open_bytes_per_merchant),
        "unknown_bytes": max(int(policy.largest) for policy in settings.policies),
    }


async def check_room(tx: Tx, settings: DirectSettings, wanted: Mapping[str, Any]) -> None:
    """Raises UPLOAD_SLOTS_FULL when this upload would be one too many, or too large; until `tx` ends none can begin."""
    known = limits(settings)
    query = "select uploads, bytes from catalog.direct_open(%s, %s)"
    held = await fetch_one(tx, query, (wanted["merchant_id"], known["unknown_bytes"])) or {"uploads": 0, "bytes": 0}
    if held["uploads"] >= known["most_uploads"]:
        raise PenstockError(
            error_codes.UPLOAD_SLOTS_FULL, slots=known["most_uploads"], retry_after=_RETRY_AFTER_SEC
        )  # fmt: skip
    if held["bytes"] + (wanted["expected_size"] or known["unknown_bytes"]) > known["most_bytes"]:
        raise PenstockError(
            error_codes.UPLOAD_SLOTS_FULL, held_bytes=held["bytes"], limit_bytes=known["most_bytes"],
            retry_after=_RETRY_AFTER_SEC,
        )  # fmt: skip
