"""Acting for another merchant: asked for explicitly, allowed to few, always written down."""

from dataclasses import replace

from penstock.kernel import audit, error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity.caller import Caller, Role, is_id

_MAY = (Role.UPLOADER, Role.ADMIN)


async def acting_for(tx: Tx, caller: Caller, merchant_id: str | None, request_id: str | None) -> Caller:
    """The caller as that merchant. The audit row commits or vanishes with what is done in its name."""
    if merchant_id is None or merchant_id == caller.merchant_id:
        return caller
    if caller.role not in _MAY:
        raise PenstockError(error_codes.ROLE_DENIED, needs=[role.value for role in _MAY])
    if not is_id(merchant_id):
        raise PenstockError(error_codes.REQUEST_INVALID, fields={"impersonate_merchant_id": "not a merchant id"})
    await audit.record(
        tx,
        audit.Entry(
            actor=caller.user_id,
            role=caller.role.value,
            action="impersonate_merchant",
            merchant_id=merchant_id,
            details={"own_merchant_id": caller.merchant_id},
            request_id=request_id,
        ),
    )
    return replace(caller, merchant_id=merchant_id)
