"""Which request goes where, and every refusal as its API writes it. Nothing that was signed is logged.

Plain ASGI: names of objects hold any character, so paths are cut before they are decoded.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any
from xml.sax.saxutils import escape

import msgspec
import structlog

from penstock.embedded.bucket.body import Body, HungUpOn, Patience, Receive, SenderGone
from penstock.embedded.bucket.json_api import answer_json
from penstock.embedded.bucket.keys import Keys
from penstock.embedded.bucket.place import BucketPlace
from penstock.embedded.bucket.refusals import Refusal, malformed, try_again
from penstock.embedded.bucket.requests import Answer, Request, Send
from penstock.embedded.bucket.session_requests import as_json
from penstock.embedded.bucket.threads import ITSELF, OwnedWork, current_work, in_thread, work_for
from penstock.embedded.bucket.xml_api import answer_xml

log = structlog.get_logger(__name__)
_PIECE = 512 * 1024
_LONGEST_FORM = 32 * 1024
MOST_UNCHECKED = 256  # requests under way of senders who have shown no right
_JSON = ("/storage/", "/upload/", "/download/", "/resumable/", "/token", "/oauth2/", "/_/")


class BucketApp:
    """The whole bucket as one ASGI application."""

    def __init__(self, place: BucketPlace, keys: Keys) -> None:
        self._place = place
        self._published = keys.published()
        limits = place.settings
        self._patience = Patience(
            limits.idle_seconds.total_seconds(),
            limits.body_seconds.total_seconds(),
            limits.drain_seconds.total_seconds(),
        )
        self._tasks: set[asyncio.Task[Any]] = set()
        self._unchecked: OrderedDict[Body, None] = OrderedDict()  # of senders who have shown no right yet, oldest first

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        work = OwnedWork(self._place.fair)
        work_for(work)
        body = Body(receive, self._patience, work)
        with self._under_way(), self._until_checked(scope, body) as counted:
            try:
                answer = await self._drained(counted, body)
                await work.take_turn()
                await _send(answer, send, with_body=scope["method"] != "HEAD")
            finally:
                work.give_turn()

    def cut_off(self) -> int:
        for task in self._tasks:
            task.cancel()
        return len(self._tasks)

    async def _drained(self, scope: MutableMapping[str, Any], body: Body) -> Answer:
        try:
            answer = await self._answered(scope, body)
            with contextlib.suppress(HungUpOn):
                await body.drain()
        except SenderGone:  # or it is there, and sends what is no body: then somebody reads this
            is_json = str(scope["path"]).startswith(_JSON)
            return _refused(malformed("The body broke off, or cannot be read."), is_json=is_json)
        return answer

    async def _answered(self, scope: MutableMapping[str, Any], body: Body) -> Answer:
        is_json = str(scope["path"]).startswith(_JSON)
        try:
            return await self._route(Request(scope, body))
        except Refusal as refusal:
            return _refused(refusal, is_json=is_json)
        except HungUpOn:
            return _refused(try_again("The sender was silent for too long."), is_json=is_json)
        except OSError as failure:
            log.warning("bucket.disk_trouble", reason=failure.strerror)
            return _refused(try_again("The disk does not take it."), is_json=is_json)

    async def _route(self, request: Request) -> Answer:
        path = request.raw_path
        if path == "/health/live":
            return as_json({"status": "alive"})
        if path == "/oauth2/v3/certs":
            return as_json(self._published, cache_control="public, max-age=300")
        if path == "/token" and request.method == "POST":
            granted = self._place.tokens.grant(await _form(request))
            await request.admit(ITSELF)
            return as_json(granted)
        if path == "/_/faults" and self._place.settings.fault_switches:
            return await self._order_faults(request)
        route: Callable[[BucketPlace, Request], Awaitable[Answer]] = (
            answer_json if path.startswith(_JSON) else answer_xml
        )
        return await route(self._place, request)

    async def _order_faults(self, request: Request) -> Answer:
        try:
            self._place.faults.order(msgspec.json.decode(await request.body.whole(_LONGEST_FORM), type=dict[str, Any]))
        except (ValueError, msgspec.MsgspecError) as wrong:
            raise malformed(str(wrong)) from None
        return Answer(204)

    @contextlib.contextmanager
    def _until_checked(self, scope: MutableMapping[str, Any], body: Body) -> Iterator[MutableMapping[str, Any]]:
        """Counts a request until its sender has shown a right. Too many: the oldest body is read no further."""
        told: Callable[[], None] | None = scope.get("checked")

        def checked() -> None:
            self._unchecked.pop(body, None)
            if told is not None:
                told()

        if len(self._unchecked) >= MOST_UNCHECKED:
            oldest, _ = self._unchecked.popitem(last=False)
            oldest.hang_up()
        self._unchecked[body] = None
        try:
            yield {**scope, "checked": checked}
        finally:
            self._unchecked.pop(body, None)

    @contextlib.contextmanager
    def _under_way(self) -> Iterator[None]:
        task = asyncio.current_task()
        if task is None:
            yield
            return
        self._tasks.add(task)
        try:
            yield
        finally:
            self._tasks.discard(task)


async def _form(request: Request) -> bytes:
    """Reads the body of a request without a signature, only when its length is known and small."""
    if request.content_length is None:
        raise Refusal(411, "LengthRequired", "Content-Length is missing.")
    if request.content_length > _LONGEST_FORM:
        raise Refusal(413, "EntityTooLarge", f"This body may have {_LONGEST_FORM} bytes at the most.")
    return await request.body.whole(_LONGEST_FORM)


def _refused(refusal: Refusal, *, is_json: bool) -> Answer:
    if refusal.code == "invalid_grant":
        return as_json({"error": refusal.code, "error_description": refusal.message}, refusal.status)
    if is_json:
        said = {"code": refusal.status, "message": refusal.message,
                "errors": [{"domain": "global", "reason": refusal.code, "message": refusal.message}]}  # fmt: skip
        return as_json({"error": said}, refusal.status)
    text = (
        "<?xml version='1.0' encoding='UTF-8'?>"
        f"<Error><Code>{refusal.code}</Code><Message>{escape(refusal.message)}</Message></Error>"
    )
    return Answer(refusal.status, {"content-type": "application/xml; charset=UTF-8"}, text.encode())


async def _send(answer: Answer, send: Send, *, with_body: bool) -> None:
    length = answer.length if answer.file else len(answer.body)
    headers = {**answer.headers, "content-length": str(length)}
    if answer.status == 204:
        del headers["content-length"]
    encoded = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    if answer.file is None:
        await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
        await send({"type": "http.response.body", "body": answer.body if with_body else b""})
        return
    current_work().give_turn()  # whoever fetches may be slow; the disk is read in turns all the same
    try:
        file = await in_thread(answer.file.open, "rb", 0)
    except FileNotFoundError:  # replaced or deleted since we looked
        gone = _refused(try_again("The object has changed: ask again."), is_json=True)
        await _send(gone, send, with_body=with_body)
        return
    try:
        await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
        await in_thread(file.seek, answer.first)
        left = answer.length if with_body else 0
        while left and (piece := await in_thread(file.read, min(_PIECE, left))):
            left -= len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
        if not with_body or answer.length == 0:
            await send({"type": "http.response.body", "body": b""})
    finally:
        file.close()
