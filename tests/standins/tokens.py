"""Cursors that a service hands out: where to read on, what was asked, and when the token was made."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from tests.standins.library import Entry


class DeadToken(Exception):
    """Unknown, spoiled or too old."""


class Tokens:
    def __init__(self, ttl: float | None, moment: Callable[[], float]) -> None:
        self.ttl, self._moment = ttl, moment
        self._frozen: dict[int, tuple[float, Sequence[Entry]]] = {}
        self._last = 0

    def make(self, **state: Any) -> str:
        text = json.dumps({**state, "made": self._moment()}, default=datetime.isoformat)
        return base64.urlsafe_b64encode(text.encode()).decode()

    def read(self, token: str) -> dict[str, Any]:
        try:
            state = json.loads(base64.urlsafe_b64decode(token.encode()))
            made = float(state["made"])
        except (binascii.Error, ValueError, KeyError, TypeError):
            raise DeadToken(token) from None
        if self.ttl is not None and self._moment() - made > self.ttl:
            raise DeadToken(token)
        return dict(state)

    def freeze(self, entries: Sequence[Entry]) -> int:
        """Keeps a result as it is now, so that later pages do not shift under the reader."""
        moment = self._moment()
        if self.ttl is not None:
            self._frozen = {no: kept for no, kept in self._frozen.items() if moment - kept[0] <= self.ttl}
        while len(self._frozen) >= 1000:
            del self._frozen[next(iter(self._frozen))]
        self._last += 1
        self._frozen[self._last] = (moment, entries)
        return self._last

    def frozen(self, number: int) -> Sequence[Entry]:
        kept = self._frozen.get(number)
        if kept is None:
            raise DeadToken(str(number))
        self._frozen[number] = (self._moment(), kept[1])
        return kept[1]
