"""Signals: somebody says that records should be looked at again (retracted, corrected, a field is missing).

Invariant: one open signal per record and reason. Raised again after it was taken up, it is open again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.harvest.planning import store_update
from penstock.kernel import error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError

MOST_AT_ONCE = 10_000
_LONGEST_ID = 1_000


@dataclass(frozen=True, slots=True)
class Reason:
    """Why, and who says so."""

    code: str  # RETRACTION, CORRECTION, MISSING_FIELD …
    by: str
    note: str | None = None


async def raise_signals(tx: Tx, source: str, endpoint: str, ids: Sequence[str], reason: Reason) -> int:
    """Returns how many are new or open again."""
    if not ids or len(ids) > MOST_AT_ONCE:
        raise PenstockError(error_codes.SIGNALS_INVALID, given=len(ids), most=MOST_AT_ONCE)
    wrong = [each for each in ids if not _can_be_an_id(each)]
    if wrong:
        shown = [each[:100].encode(errors="replace").decode() for each in wrong[:5]]
        raise PenstockError(error_codes.SIGNALS_INVALID, wrong=shown)
    return await store_update.raise_signals(tx, (source, endpoint), sorted(set(ids)), reason)


def _can_be_an_id(text: str) -> bool:
    """JSON can say half a surrogate pair; no table can hold it."""
    if not text.strip() or len(text) > _LONGEST_ID or "\x00" in text:
        return False
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
