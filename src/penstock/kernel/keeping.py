"""Work that lasts as long as something beside it does: a lease that is renewed, a sign of life that is waited for.

Whoever holds a row works outside of any transaction, for longer than the lease lasts. It is renewed meanwhile; lost,
the work is cancelled and LEASE_LOST takes its place, so that nothing is settled by who has been replaced.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Never, TypeVar

from penstock.kernel import error_codes, leases
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError, raise_unless_unavailable
from penstock.kernel.leases import Leasable, Lease

T = TypeVar("T")


async def beside(watch: Callable[[], Awaitable[Never]], work: Callable[[], Awaitable[T]]) -> T:
    """What the work returns or raises; what the watch raises, if that comes first. Neither is left running."""
    running, watching = asyncio.ensure_future(work()), asyncio.ensure_future(watch())
    try:
        await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        return watching.result()
    finally:
        running.cancel()
        watching.cancel()
        await asyncio.gather(running, watching, return_exceptions=True)


async def renewing(database: Database, what: Leasable, lease: Lease, ttl: timedelta) -> Never:
    """Renews until it is cancelled, or raises LEASE_LOST. A database that is away is waited for."""
    while True:
        await asyncio.sleep(ttl.total_seconds() / 3)
        await renew_or_lose(database, what, lease, ttl)


async def renew_or_lose(database: Database, what: Leasable, lease: Lease, ttl: timedelta) -> None:
    try:
        async with database.transaction() as tx:
            kept = await leases.renew(tx, what, [lease], ttl=ttl)
    except PenstockError as away:
        raise_unless_unavailable(away)
        return
    if not kept:
        raise PenstockError(error_codes.LEASE_LOST, table=what.table, key=str(lease.key))
