"""Fair shares of a process's places: one tenant holds at most its share, and whoever holds least is next.

Kept in memory, because it counts what this process works on. What waits is in PostgreSQL; each process serves the
tenants it finds there in turn, so none of them can keep another waiting behind its backlog.
"""

from collections import Counter
from collections.abc import Iterable

_REMEMBERED = 10_000  # tenants whose last turn is known; for the others it is as if they never had one


class TenantShares:
    """`take` a place when work begins, `release` it when the work is over."""

    def __init__(self, places: int, per_tenant: int) -> None:
        self.places = places
        self.per_tenant = max(1, min(per_tenant, places))
        self._running: Counter[str] = Counter()
        self._turns: dict[str, int] = {}  # tenant to the number of its last turn, oldest first
        self._turn = 0

    def room_for(self, tenant: str) -> int:
        """How many more places the tenant may take."""
        return self.per_tenant - self._running[tenant]

    def take(self, tenant: str) -> None:
        self._running[tenant] += 1
        self._turn += 1
        self._turns.pop(tenant, None)
        self._turns[tenant] = self._turn
        if len(self._turns) > _REMEMBERED:
            del self._turns[next(iter(self._turns))]

    def release(self, tenant: str) -> None:
        self._running[tenant] -= 1
        if self._running[tenant] <= 0:
            del self._running[tenant]

    def in_turn(self, tenants: Iterable[str]) -> list[str]:
        """Tenants that have room, in the order of their turns: least running first, then the longest not served."""
        waiting = [tenant for tenant in tenants if self.room_for(tenant) > 0]
        return sorted(waiting, key=lambda tenant: (self._running[tenant], self._turns.get(tenant, 0)))


def share_of(places: int, share: float) -> int:
    """The places of one tenant: at least one, and never all of several unless the share says so."""
    if share >= 1 or places == 1:
        return places
    return max(1, min(places - 1, int(places * share)))
