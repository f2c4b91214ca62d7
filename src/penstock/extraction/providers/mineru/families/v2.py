"""Servers of 2.x: one call that answers when all is done. There is nothing to look at, and nothing to go on with."""

from dataclasses import replace
from pathlib import Path

from penstock.extraction.providers.mineru.families.forms import parse_form
from penstock.extraction.providers.mineru.family import Look, Order, Ticket
from penstock.extraction.providers.mineru.refusals import for_status
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.extraction.providers.mineru.web import Web


class Version2:
    name = "self-hosted-2"
    version = "2"

    def __init__(self, web: Web, settings: MineruSettings, root: str) -> None:
        self._web, self._settings, self._root = web, settings, root

    async def submit(self, order: Order) -> Ticket:
        return {"id": f"file_parse.{order.data_id}"}

    async def deliver(self, order: Order, ticket: Ticket) -> None: ...

    async def look(self, order: Order, ticket: Ticket) -> Look:  # noqa: ARG002  the port asks for it
        return Look(is_done=True)

    async def fetch(self, order: Order, ticket: Ticket, look: Look, into: Path) -> None:  # noqa: ARG002  as above
        form = replace(parse_form(order, self._settings), lasts=self._settings.parse_timeout_seconds)
        answer = await self._web.ask_for_result("POST", f"{self._root}/file_parse", into, form)
        if answer.status != 200:
            raise for_status(answer.status, None, self._web.hushed(answer["error"] or answer["detail"]))
