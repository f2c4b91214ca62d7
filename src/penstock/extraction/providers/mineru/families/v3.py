"""Servers of 3.x (`mineru-api`): a form makes a task, which is looked at until its result can be fetched.

Tasks live in the server's memory: after a restart, or a day, it says 404.
"""

from pathlib import Path

from penstock.extraction.providers.mineru.families.forms import parse_form
from penstock.extraction.providers.mineru.families.tasks import known, ticket_of
from penstock.extraction.providers.mineru.family import Look, Order, Ticket
from penstock.extraction.providers.mineru.refusals import ParseFailed, for_status, not_understood
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.extraction.providers.mineru.web import Answer, Web

_AT_WORK = frozenset({"pending", "processing"})


class Version3:
    name = "self-hosted-3"

    def __init__(self, web: Web, settings: MineruSettings, root: str, version: str) -> None:
        self._web, self._settings, self._root, self.version = web, settings, root, version

    async def submit(self, order: Order) -> Ticket:
        answer = await self._web.ask("POST", f"{self._root}/tasks", parse_form(order, self._settings))
        return ticket_of(answer, self._refusal)

    async def deliver(self, order: Order, ticket: Ticket) -> None: ...

    async def look(self, order: Order, ticket: Ticket) -> Look:  # noqa: ARG002
        answer = known(await self._web.ask("GET", f"{self._root}/tasks/{ticket['id']}"), self._refusal)
        state = answer["status"]
        if state == "failed":
            raise ParseFailed("failed", self._web.hushed(answer["error"]))
        if state != "completed" and state not in _AT_WORK:
            raise not_understood("UNKNOWN_STATE", state=self._web.hushed(state))
        return Look(is_done=state == "completed")

    async def fetch(self, order: Order, ticket: Ticket, look: Look, into: Path) -> None:  # noqa: ARG002
        answer = await self._web.ask_for_result("GET", f"{self._root}/tasks/{ticket['id']}/result", into)
        if answer.status == 409:
            raise ParseFailed("failed", self._web.hushed(answer["error"]))
        known(answer, self._refusal)

    def _refusal(self, answer: Answer) -> Exception:
        return for_status(answer.status, None, self._web.hushed(answer["detail"] or answer["error"]))
