"""What an attempt writes down for the next one: whose tasks are whose, so that nothing is submitted twice."""

from collections.abc import Mapping
from typing import Any

from penstock.extraction.ports import Notebook
from penstock.extraction.providers.mineru.family import Part, Ticket

_FACT = "mineru"


class Notes:
    """Kept under one name in the notebook; every change is stored before it returns."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        held = notebook.remembered.get(_FACT)
        held = held if isinstance(held, Mapping) else {}
        self._family: str = held.get("family", "")
        self.pages_per_part: int = held.get("pages_per_part", 0)
        self._tickets: dict[str, Ticket] = dict(held.get("tickets", {}))
        self._failures: dict[str, int] = dict(held.get("failures", {}))

    async def belong_to(self, family: str) -> None:
        """Tasks of another kind of server are of no use."""
        if self._family != family:
            self._family, self._tickets, self._failures = family, {}, {}
            await self._store()

    def ticket(self, part: Part) -> Ticket | None:
        return self._tickets.get(part.label)

    async def keep(self, part: Part, ticket: Ticket) -> None:
        self._tickets[part.label] = ticket
        await self._store()

    async def drop(self, part: Part, *, failed: bool = False) -> int:
        """Forget a task; how often the service has failed at the part, over all attempts."""
        self._tickets.pop(part.label, None)
        if failed:
            self._failures[part.label] = self._failures.get(part.label, 0) + 1
        await self._store()
        return self._failures.get(part.label, 0)

    async def split(self, pages_per_part: int) -> None:
        self.pages_per_part, self._tickets = pages_per_part, {}
        await self._store()

    async def _store(self) -> None:
        facts: dict[str, Any] = {
            "family": self._family,
            "pages_per_part": self.pages_per_part,
            "tickets": {label: dict(ticket) for label, ticket in self._tickets.items()},
            "failures": dict(self._failures),
        }
        await self._notebook.remember(**{_FACT: facts})
