"""Faults to order, so that clients can be tried: nothing here happens unless a test asks for it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(slots=True)
class Faults:
    """Each may be changed while the server runs; counts run down by themselves."""

    fail_after_bytes: int | None = None  # the next PUT that brings more is answered 503 there
    lost_answers: int = 0  # so many objects are made, but their sender gets 500 instead of 200
    expire_sessions: bool = False  # every session is too old
    hold_notifications: bool = False  # they wait until this is false again
    newest_first: bool = False  # of those that wait
    extra_deliveries: int = 0  # each notification comes so many more times
    notification_delay: float = 0.0  # seconds

    def order(self, wanted: Mapping[str, Any]) -> None:
        """ValueError for a fault that does not exist or a value that is none."""
        known = {field.name for field in fields(self)}
        for name, value in wanted.items():
            if name not in known or not (value is None or isinstance(value, bool | int | float)):
                raise ValueError(f"there is no such fault: {name}")
        for name, value in wanted.items():
            setattr(self, name, value)

    def breaks_off(self, received: int) -> bool:
        if self.fail_after_bytes is None or received <= self.fail_after_bytes:
            return False
        self.fail_after_bytes = None
        return True

    def loses_this_answer(self) -> bool:
        if self.lost_answers <= 0:
            return False
        self.lost_answers -= 1
        return True
