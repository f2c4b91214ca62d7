"""Limits how many requests of one merchant are under way in this process.

Each holds a connection and a task, however little it does: with enough of them one merchant would take the places of
all others. The guard takes a permit as soon as it knows who calls; the edge gives it back when the request has ended,
or when its answer turns out to be an event stream, which has limits of its own.
"""

from collections import Counter
from collections.abc import Callable

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

_RETRY_SECONDS = 1.0


class RequestsAtOnce:
    """The requests under way by merchant, at most `most` of each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._under_way: Counter[str] = Counter()

    def take(self, merchant_id: str) -> Callable[[], None]:
        """Counts one more and returns how to give it back, once or more often. RATE_LIMITED at the limit."""
        if self._under_way[merchant_id] >= self._most:
            raise PenstockError(error_codes.RATE_LIMITED, scope="requests at once", retry_after=_RETRY_SECONDS)
        self._under_way[merchant_id] += 1
        is_held = True

        def give_back() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                self._under_way[merchant_id] -= 1
                if not self._under_way[merchant_id]:
                    del self._under_way[merchant_id]

        return give_back
