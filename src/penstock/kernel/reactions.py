"""What our own code does when something has happened elsewhere: event → handlers, wired in bootstrap.

A handler runs in a worker, inside one transaction that also marks its delivery as done: its effects on the
database happen exactly once. It must be quick and must not call anything outside; long work is claimed
by its own worker job. Events of one order key reach a handler in order.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from penstock.kernel.db import Tx
from penstock.kernel.events import StoredEvent, matches

Handler = Callable[[Tx, StoredEvent], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Reaction:
    """`name` is stored with every delivery: once released it does not change."""

    name: str
    pattern: str  # an event type, 'family.*' or '*'
    handle: Handler


class Reactions:
    """All reactions of this build."""

    def __init__(self, reactions: Iterable[Reaction]) -> None:
        self._by_name: dict[str, Reaction] = {}
        for reaction in reactions:
            if reaction.name in self._by_name:
                raise ValueError(f"two reactions are called {reaction.name}")
            self._by_name[reaction.name] = reaction

    def find(self, name: str) -> Reaction | None:
        return self._by_name.get(name)

    def names_for(self, event_type: str) -> list[str]:
        return [name for name, reaction in self._by_name.items() if matches(reaction.pattern, event_type)]
