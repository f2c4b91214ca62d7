"""Acting for another merchant: only to create jobs, asked for explicitly, allowed to few, always written down.

Operators and administrators may, and callers whose token lists the merchant in its `act_for` claim. The merchant
is told by an event. Webhooks, events and everything that reads have no such parameter (ADR 7).
"""

from dataclasses import replace

import structlog

from penstock.kernel import audit, error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.events import Event
from penstock.kernel.identity.caller import Caller, is_id
from penstock.kernel.outbox import announce

log = structlog.get_logger(__name__)

ACT_FOR_PARAMETER = "impersonate_merchant_id"


async def acting_for(tx: Tx, caller: Caller, merchant_id: str | None, request_id: str | None) -> Caller:
    """Returns the caller as that merchant, with an audit row and an event for the merchant.

    Raises MERCHANT_DENIED, which says nothing about the merchant, for a caller who may not act for it.
    """
    if merchant_id is None or merchant_id == caller.merchant_id:
        return caller
    if not is_id(merchant_id):
        raise PenstockError(error_codes.REQUEST_INVALID, fields={ACT_FOR_PARAMETER: "not a merchant id"})
    if not caller.may_act_for(merchant_id):
        log.warning("impersonation.refused", actor=caller.user_id, merchant=merchant_id)
        raise PenstockError(error_codes.MERCHANT_DENIED, merchant=merchant_id, needs=["operator", "admin", "act_for"])
    own = {"own_merchant_id": caller.merchant_id}
    entry = audit.Entry(
        actor=caller.user_id,
        role=caller.role.value,
        action="impersonate_merchant",
        merchant_id=merchant_id,
        details=own,
        request_id=request_id,
    )
    await audit.record(tx, entry)
    told = {"actor": entry.actor, "role": entry.role, **own, "request_id": request_id}
    await announce(tx, Event("merchant.impersonated", "merchant", merchant_id, told, merchant_id=merchant_id))
    return replace(caller, merchant_id=merchant_id, act_for=())


def refuse_act_for(where: str) -> PenstockError:
    """Returns REQUEST_INVALID for a request that names another merchant where nobody may act for one.

    Ignoring the name would carry out the request for the caller's own merchant, which is not what was asked.
    """
    reason = "only the body of POST /api/v1/jobs takes it"
    return PenstockError(error_codes.REQUEST_INVALID, fields={where: reason})
