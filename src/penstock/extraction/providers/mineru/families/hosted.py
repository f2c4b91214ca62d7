"""MinerU's hosted service, v4: a batch of one file, a signed link to upload to, then looking until it is done.

Uploading starts the work; there is no further call. So the batch is remembered before its file is sent: whoever goes
on after a kill sends the file again to the same link, or finds it done. Errors come with HTTP 200 and a code; the
gateway's own, about tokens, in another envelope.
"""

from pathlib import Path
from typing import Any

from penstock.extraction.providers.mineru.family import Look, Order, Ticket
from penstock.extraction.providers.mineru.refusals import for_business_code, for_status, not_understood
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.extraction.providers.mineru.web import Answer, Sent, Web

_AT_WORK = frozenset({"pending", "running", "converting", "uploading"})


class Hosted:
    name = "hosted-v4"
    version = "v4"

    def __init__(self, web: Web, settings: MineruSettings) -> None:
        self._web, self._settings = web, settings

    async def submit(self, order: Order) -> Ticket:
        file: dict[str, Any] = {"name": order.filename, "data_id": order.data_id}
        if self._settings.ocr_mode == "ocr":
            file["is_ocr"] = True
        if not order.part.is_whole:
            file["page_ranges"] = order.part.label
        asked: dict[str, Any] = {
            "files": [file],
            "enable_formula": self._settings.formulas,
            "enable_table": True,
            "language": self._settings.language,
        }
        if self._settings.model_version:
            asked["model_version"] = self._settings.model_version
        data = self._data(await self._web.ask("POST", self._address("/file-urls/batch"), Sent(json=asked)))
        links = data.get("file_urls")
        if not isinstance(data.get("batch_id"), str) or not isinstance(links, list) or len(links) != 1:
            raise not_understood("NO_UPLOAD_LINK")
        return {"id": data["batch_id"], "data_id": order.data_id, "upload_to": str(links[0])}

    async def deliver(self, order: Order, ticket: Ticket) -> None:
        await self._web.put(ticket["upload_to"], order.document.path)

    async def look(self, order: Order, ticket: Ticket) -> Look:  # noqa: ARG002  the ticket says enough
        data = self._data(await self._web.ask("GET", self._address(f"/extract-results/batch/{ticket['id']}")))
        rows = data.get("extract_result")
        if not isinstance(rows, list):
            raise not_understood("NO_ROWS")
        ours = [row for row in rows if isinstance(row, dict) and row.get("data_id") == ticket["data_id"]]
        if len(ours) != 1:
            raise not_understood("ROW_MISSING")
        return self._seen(ours[0])

    async def fetch(self, order: Order, ticket: Ticket, look: Look, into: Path) -> None:  # noqa: ARG002  as the port has it
        await self._web.download(look.link, into)

    def _seen(self, row: dict[str, Any]) -> Look:
        state = row.get("state")
        if state == "failed":
            raise for_business_code(_code_of(row), self._web.hushed(row.get("err_msg")))
        if state == "done":
            link = row.get("full_zip_url")
            if not isinstance(link, str) or not link:
                raise not_understood("NO_RESULT_LINK")
            return Look(is_done=True, link=link)
        if state == "waiting-file":
            return Look(is_done=False, awaits_file=True)
        if state not in _AT_WORK:
            raise not_understood("UNKNOWN_STATE", state=self._web.hushed(state))
        progress = row.get("extract_progress")
        progress = progress if isinstance(progress, dict) else {}
        return Look(False, _count(progress.get("extracted_pages")), _count(progress.get("total_pages")))

    def _data(self, answer: Answer) -> dict[str, Any]:
        """The payload of a good answer; every other one is raised."""
        if answer["msgCode"] is not None:  # the gateway, at 401 or at 200
            raise for_business_code(answer["msgCode"], self._web.hushed(answer["msg"]))
        code = answer["code"]
        if code not in (None, 0):
            raise for_business_code(code, self._web.hushed(answer["msg"]))
        if answer.status != 200:
            raise for_status(answer.status, None, self._web.hushed(answer["msg"]))
        if code is None or not isinstance(answer["data"], dict):
            raise not_understood("NOT_MINERU")
        data: dict[str, Any] = answer["data"]
        return data

    def _address(self, path: str) -> str:
        return self._settings.base_url + path


def _code_of(row: dict[str, Any]) -> Any:
    """A row without a code says why in words only; a parse that failed is what it almost always is."""
    code = row.get("err_code")
    return code if code not in (None, "", 0) else -60010


def _count(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 1_000_000 else 0
