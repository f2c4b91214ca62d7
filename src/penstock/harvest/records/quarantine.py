"""Items that are no records, kept with the evidence that explains why; the others of their page are stored.

A quarantined item whose id later becomes a record is released by the page that stores it.
"""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.harvest.page import Fault
from penstock.harvest.records import quarantine_store
from penstock.harvest.records.counting import Place
from penstock.harvest.records.sifting import MAX_ID_BYTES
from penstock.kernel.db import Tx

SAMPLE_BYTES = 1024
_REASON_BYTES = 500


async def quarantine(
    tx: Tx, place: Place, faults: Sequence[Fault], request: dict[str, Any], mask: Callable[[bytes], str]
) -> None:
    """Write the faults of a batch; doing it again for the same batch changes nothing."""
    if faults:
        await quarantine_store.insert(tx, place, [_row(fault, mask) for fault in faults], request)


async def list_quarantine(
    tx: Tx, provenance_code: str, *, is_open: bool = True, limit: int = 100, before: int | None = None
) -> list[dict[str, Any]]:
    """The newest first; `before` is the id of the last one seen."""
    return await quarantine_store.newest(tx, provenance_code, is_open=is_open, limit=limit, before=before)


def _row(fault: Fault, mask: Callable[[bytes], str]) -> quarantine_store.Row:
    """Masked before it is cut: half a secret is not recognised."""
    given = None if fault.provider_id is None else storable(fault.provider_id, MAX_ID_BYTES)
    return (
        given, str(fault.kind), storable(fault.reason, _REASON_BYTES), storable(mask(fault.sample), SAMPLE_BYTES),
        fault.item_no,
    )  # fmt: skip


def storable(text: str, most: int) -> str:
    """At most so many bytes, whole letters, nothing that PostgreSQL cannot store."""
    plain = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace")
    return plain[:most].decode(errors="ignore")
