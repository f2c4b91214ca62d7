"""What a plan may promise of a source's quota. Executors keep to it request by request; a plan only looks ahead.

Invariant: when quota is short, BACKFILL waits first, then UPDATE, HARVEST last.
"""

from penstock.harvest.spec import Operation, Spec

_RESERVES = {Operation.HARVEST: 0, Operation.UPDATE: 1, Operation.BACKFILL: 2}  # times quotaReserve


class DeclaredQuota:
    """A day of the quota as the source file says it, less the margin."""

    async def left(self, spec: Spec) -> int | None:
        limits = spec.rate_limit
        hourly = limits.quota_hourly * 24 if limits.quota_hourly else None
        known = [quota for quota in (limits.quota_daily, hourly) if quota]
        return int(min(known) * (1 - limits.quota_margin)) if known else None


def share_of(spec: Spec, left: int | None) -> int | None:
    """What this operation may use of what is left."""
    if left is None:
        return None
    kept = min(1.0, spec.rate_limit.quota_reserve * _RESERVES[spec.operation])
    return int(left * (1 - kept))
