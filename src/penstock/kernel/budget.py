"""Budgets: what may be spent in a day, held to the unit however many spend at once.

Reserve before the call, settle with the real amount after it; both in the caller's transaction. A scope never
has more reserved and spent than allowed (a call that turns out dearer than reserved is still booked in full).
A reservation that nobody settles counts as spent once it has expired: its holder died after it may have
called, and money that may be gone is gone. Scopes are locked in sorted order, so reservations never
deadlock; make one per transaction.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from penstock.kernel import error_codes
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.db import Tx, fetch_all, fetch_one
from penstock.kernel.errors import ErrorCode, PenstockError

# Creates the day's rows and takes in a changed allowance; either way every row is locked, in this order.
_LOCK = """
insert into budgets (scope, day, allowed)
select scope, %(day)s, allowed from unnest(%(scopes)s::text[], %(allowed)s::bigint[]) as wanted (scope, allowed)
 order by scope
on conflict (scope, day) do update set allowed = excluded.allowed
returning scope, allowed - spent - reserved as remaining
"""
_RESERVE = """
with held as (
  insert into budget_reservations (reservation_id, scope, day, amount, expires_at)
  select %(id)s, scope, %(day)s, %(amount)s, %(expires_at)s from unnest(%(scopes)s::text[]) as wanted (scope)
)
update budgets set reserved = reserved + %(amount)s where scope = any(%(scopes)s) and day = %(day)s
"""
_TAKE = "delete from budget_reservations where reservation_id = %s returning scope, day, amount"
_TAKE_EXPIRED = """
delete from budget_reservations where (reservation_id, scope) in (
  select reservation_id, scope from budget_reservations where expires_at <= %s
   order by expires_at limit %s for update skip locked)
returning scope, day, amount
"""
_BOOK = "update budgets set reserved = reserved - %s, spent = spent + %s where scope = %s and day = %s"


@dataclass(frozen=True, slots=True)
class Reservation:
    """What was set aside, in every scope alike."""

    reservation_id: uuid.UUID
    amount: int


class Budgets:
    """Amounts are whole units: micro-dollars, or requests. Days are UTC."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()

    async def reserve(
        self,
        tx: Tx,
        amount: int,
        scopes: Mapping[str, int],
        *,
        ttl: timedelta = timedelta(hours=1),
        code: ErrorCode = error_codes.BUDGET_EXHAUSTED,
    ) -> Reservation:
        """Set `amount` aside in all scopes, or in none. `scopes` says what each may spend today."""
        if amount < 0 or not scopes or min(scopes.values()) < 0:
            raise ValueError(f"cannot reserve {amount} in {dict(scopes)}")
        now, reservation = self._clock.now(), Reservation(uuid.uuid4(), amount)
        params = {
            "id": reservation.reservation_id,
            "day": now.date(),
            "scopes": list(scopes),
            "allowed": list(scopes.values()),
            "amount": amount,
            "expires_at": now + ttl,
        }
        for row in await fetch_all(tx, _LOCK, params):
            if row["remaining"] < amount:
                raise PenstockError(code, scope=row["scope"], remaining=max(0, row["remaining"]), wanted=amount)
        await tx.execute(_RESERVE, params)
        return reservation

    async def settle(self, tx: Tx, reservation: Reservation, amount: int) -> bool:
        """Book what was really spent. False: it had expired, and the reserved amount was booked already."""
        if amount < 0:
            raise ValueError(f"cannot settle {amount}")
        held = await fetch_all(tx, _TAKE, (reservation.reservation_id,))
        for row in sorted(held, key=_order):
            await tx.execute(_BOOK, (row["amount"], amount, row["scope"], row["day"]))
        return bool(held)

    async def release(self, tx: Tx, reservation: Reservation) -> bool:
        """Nothing was spent."""
        return await self.settle(tx, reservation, 0)

    async def expire(self, tx: Tx, *, limit: int = 1000) -> int:
        """Book reservations of the dead as spent; returns how many rows there were."""
        held = await fetch_all(tx, _TAKE_EXPIRED, (self._clock.now(), limit))
        for row in sorted(held, key=_order):
            await tx.execute(_BOOK, (row["amount"], row["amount"], row["scope"], row["day"]))
        return len(held)

    async def remaining(self, tx: Tx, scope: str) -> int | None:
        """What can still be reserved today; None before the first reservation of the day."""
        query = "select allowed - spent - reserved as remaining from budgets where scope = %s and day = %s"
        row = await fetch_one(tx, query, (scope, self._clock.now().date()))
        return None if row is None else max(0, int(row["remaining"]))


def _order(row: Mapping[str, object]) -> tuple[str, str]:
    return str(row["scope"]), str(row["day"])
