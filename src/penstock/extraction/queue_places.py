"""Places in the queue: so many in all, and no merchant takes more than its share of them.

Asked in the transaction that adds the task. Whoever asks waits for whoever asked before, until that one has committed,
so of any number that come at once not one too many gets in.
"""

from psycopg.pq import TransactionStatus

from penstock.extraction import store
from penstock.extraction.settings import EtlSettings
from penstock.kernel import error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError

_RETRY_SECONDS = 30


async def take_place(tx: Tx, merchant_id: str, settings: EtlSettings) -> None:
    """ETL_QUEUE_FULL; ETL_QUEUE_SHARE_FULL while others may still come in."""
    if tx.info.transaction_status is TransactionStatus.IDLE:
        raise RuntimeError("a place is held to the end of a transaction, and this is none")
    reason = await store.kept_out_by(tx, merchant_id, settings.queue_size, settings.merchant_places)
    if reason == "queue":
        raise PenstockError(error_codes.ETL_QUEUE_FULL, size=settings.queue_size, retry_after=_RETRY_SECONDS)
    if reason is not None:
        raise PenstockError(
            error_codes.ETL_QUEUE_SHARE_FULL, share=settings.merchant_places, retry_after=_RETRY_SECONDS
        )
