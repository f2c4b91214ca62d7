"""Servers of 4.x: options in the query, errors in an envelope of their own, boxes as shares of the page."""

from pathlib import Path
from typing import Any

from penstock.extraction.providers.mineru.families.tasks import known, ticket_of
from penstock.extraction.providers.mineru.family import Look, Order, Ticket
from penstock.extraction.providers.mineru.refusals import (
    ParseFailed,
    TaskLost,
    for_status,
    not_understood,
    refused,
    unavailable,
)
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.extraction.providers.mineru.web import Answer, Sent, Web

_AT_WORK = frozenset({"queued", "running"})
_FORMATS = ("markdown", "middle_json", "zip")


class Version4:
    name = "self-hosted-4"

    def __init__(self, web: Web, settings: MineruSettings, root: str, version: str) -> None:
        self._web, self._settings, self._root, self.version = web, settings, f"{root}/v1", version

    async def submit(self, order: Order) -> Ticket:
        query = [("filename", order.filename), ("ocr_mode", self._settings.ocr_mode)]
        query += [("output_formats", name) for name in _FORMATS]
        if self._settings.model_version:
            query.append(("tier", self._settings.model_version))
        if not order.part.is_whole:
            query.append(("page_range", order.part.label))
        answer = await self._web.ask("POST", f"{self._root}/tasks", Sent(query=query, raw=order.document.path))
        return ticket_of(answer, self._refusal)

    async def deliver(self, order: Order, ticket: Ticket) -> None: ...

    async def look(self, order: Order, ticket: Ticket) -> Look:  # noqa: ARG002
        return self._seen(known(await self._web.ask("GET", f"{self._root}/tasks/{ticket['id']}"), self._refusal))

    async def fetch(self, order: Order, ticket: Ticket, look: Look, into: Path) -> None:  # noqa: ARG002
        where = f"{self._root}/tasks/{ticket['id']}/result"
        answer = await self._web.ask_for_result("GET", where, into, Sent(query=[("response_format", "zip")]))
        if answer.status == 409:
            self._seen(answer)
        known(answer, self._refusal)

    def _seen(self, answer: Answer) -> Look:
        state = answer["status"]
        if state == "canceled":  # by somebody at the server; it is not our task that was taken back
            raise TaskLost
        if state in {"failed", "partial"}:
            self._raise_for_file(answer)
        if state not in {"completed", "partial"} and state not in _AT_WORK:
            raise not_understood("UNKNOWN_STATE", state=self._web.hushed(state))
        return Look(is_done=state not in _AT_WORK)

    def _raise_for_file(self, answer: Answer) -> None:
        """One file was sent: it failed, or the task did not."""
        files = answer["files"]
        file = files[0] if isinstance(files, list) and files and isinstance(files[0], dict) else {}
        if file.get("status") == "completed":
            return
        error = file.get("error")
        error = error if isinstance(error, dict) else {}
        code, message = error.get("code") or "failed", self._web.hushed(error.get("message"))
        if error.get("type") == "invalid_request_error":
            raise refused(code, message)
        if code in {"engine_dead", "server_shutting_down"}:
            raise unavailable("SERVICE_BUSY", upstream_code=code)
        raise ParseFailed(code, message)

    def _refusal(self, answer: Answer) -> Exception:
        error: Any = answer["error"]
        error = error if isinstance(error, dict) else {}
        return for_status(answer.status, error.get("code"), self._web.hushed(error.get("message")))
