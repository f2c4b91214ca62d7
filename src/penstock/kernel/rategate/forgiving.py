"""The gate for calls that come to us: the same bucket, but a Redis that has forgotten is not held against the callers.

Towards an upstream a promise must hold whatever happens to Redis, so a new bucket starts empty. Towards our own callers
a burst too many does no harm, while refusing everybody after each restart of Redis would.
"""

from typing import Any

from penstock.kernel.rategate.gate import RateGate
from penstock.kernel.rategate.policy import SECOND, RatePolicy
from penstock.kernel.rategate.script import Reply

_LONG_AGO = 366 * 86_400 * SECOND


class ForgivingGate(RateGate):
    """Buckets start full, and go on as they were when Redis is started again."""

    async def _run(self, operation: str, key: str, policy: RatePolicy, ask: dict[str, Any]) -> Reply:
        return await super()._run(operation, key, policy, {**ask, "handover": 0})

    async def _age_of_redis(self) -> int:
        return _LONG_AGO
