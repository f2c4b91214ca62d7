"""Claims deliveries for one worker: merchants in turn, each up to its share of the places, endpoints up to theirs.

What an endpoint or a merchant may have at once is counted per worker. An endpoint that has just failed gets one call at
a time; one that is paused gets a probe when its pause is over, from one worker alone.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from penstock.kernel.db import Tx
from penstock.kernel.delivery_order import MOST_LANES, Candidate, Lane, lanes, lease, lock_candidates, set_aside
from penstock.kernel.endpoint_breaker import EndpointBreaker, has_breaker
from penstock.kernel.leases import Lease
from penstock.kernel.tenant_shares import TenantShares

_OVERSUPPLY = 4  # candidates per place, because other workers claim too
_CLEARED_AT_ONCE = 8  # merchants


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """What one claim may do."""

    owner: str
    lease_time: timedelta
    call_time: timedelta  # of one call, at the longest
    per_endpoint: int


class DeliveryClaim:
    """Claims of one side: reactions, or calls to the outside. `release` what was claimed when it is settled."""

    def __init__(self, *, outside: bool, shares: TenantShares, breaker: EndpointBreaker, limits: ClaimLimits) -> None:
        self._outside = outside
        self._shares = shares
        self._breaker = breaker
        self._limits = limits
        self._calls: Counter[str] = Counter()  # that run now, per endpoint
        self._suspects: set[str] = set()  # of these, endpoints that had failed before: one call at a time
        self._first = ""  # the lane where the next claim begins, while there are more than one claim lists

    async def claim(self, tx: Tx, limit: int) -> tuple[list[Lease], bool]:
        """Up to `limit` deliveries, to `hold` after the commit; and if there are none, whether to claim again."""
        waiting = await self._lanes(tx)
        turns = self._shares.in_turn(each.merchant_id for each in waiting if each.is_due)
        rooms = self._rooms(turns, limit)
        found = await lock_candidates(tx, rooms, outside=self._outside, full=self._full()) if rooms else []
        chosen = await self._admitted(tx, self._in_turn(found, turns)[:limit] if found else [])
        held = await self._lease(tx, chosen)
        heads = Counter(each.merchant_id for each in found)
        crowded = {each.merchant_id for each in waiting if each.is_crowded}
        short = [merchant for merchant, room in rooms.items() if merchant in crowded and heads[merchant] < room]
        aside = random.sample(short, min(len(short), _CLEARED_AT_ONCE))
        cleared = await set_aside(tx, aside, outside=self._outside) if aside else 0
        return held, bool(cleared or self._first)

    def hold(self, claimed: Sequence[Lease]) -> None:
        """The claim is committed: its rows take their places."""
        for each in claimed:
            self._shares.take(each.row["merchant_id"])
            if has_breaker(sink := each.row["sink"]):
                self._calls[sink] += 1
                if each.row["endpoint_failures"]:
                    self._suspects.add(sink)

    def release(self, claimed: Lease) -> None:
        """The delivery is over, however it ended."""
        self._shares.release(claimed.row["merchant_id"])
        if has_breaker(sink := claimed.row["sink"]):
            self._calls[sink] -= 1
            if self._calls[sink] <= 0:
                del self._calls[sink]
                self._suspects.discard(sink)

    def _full(self) -> list[str]:
        """Endpoints that have as many calls as they may have."""
        return [
            sink for sink, calls in self._calls.items()
            if sink in self._suspects or calls >= self._limits.per_endpoint
        ]  # fmt: skip

    async def _lanes(self, tx: Tx) -> list[Lane]:
        found = await lanes(tx, outside=self._outside, first=self._first)
        self._first = found[-1].merchant_id if len(found) == MOST_LANES else ""
        return found

    def _rooms(self, turns: list[str], limit: int) -> dict[str, int]:
        """How many candidates of each merchant to look for: the more merchants wait, the fewer of each."""
        each = max(1, 2 * limit // max(1, len(turns)))
        return {merchant: _OVERSUPPLY * min(each, self._shares.room_for(merchant)) for merchant in turns[: 2 * limit]}

    def _in_turn(self, found: list[Candidate], turns: list[str]) -> list[Candidate]:
        """One of each merchant, then a second of each, as far as merchants and endpoints have room."""
        queues: dict[str, list[Candidate]] = {merchant: [] for merchant in turns}
        calls = self._calls.copy()
        for each in found:
            queue = queues[each.merchant_id]
            most = 1 if each.failures else self._limits.per_endpoint
            if len(queue) >= self._shares.room_for(each.merchant_id) or calls[each.sink] >= most:
                continue
            if has_breaker(each.sink):
                calls[each.sink] += 1
            queue.append(each)
        longest = max(map(len, queues.values()))
        return [queue[place] for place in range(longest) for queue in queues.values() if place < len(queue)]

    async def _admitted(self, tx: Tx, chosen: list[Candidate]) -> list[Candidate]:
        """Without calls to paused endpoints, unless they are probes."""
        paused = [each.sink for each in chosen if has_breaker(each.sink) and self._breaker.is_open(each.failures)]
        probes = await self._breaker.admit_probes(tx, paused, lasting=self._limits.call_time)
        return [each for each in chosen if each.sink not in paused or each.sink in probes]

    async def _lease(self, tx: Tx, chosen: list[Candidate]) -> list[Lease]:
        failures = {each.delivery_id: each.failures for each in chosen}
        rows = await lease(tx, list(failures), owner=self._limits.owner, ttl=self._limits.lease_time) if chosen else []
        return [
            Lease(row["delivery_id"], row["lease_token"], row | {"endpoint_failures": failures[row["delivery_id"]]})
            for row in rows
        ]
