"""HTTP to one OpenAI-compatible endpoint: one request, one completion, or a CallFailed that says what it means.

Redirects are not followed, so the key goes to nobody else. Invariants: messages of the HTTP library end here, because
they hold addresses; an answer is read up to a size and within a time, whatever the endpoint sends; whatever it says of
us is masked before it is told.
"""

import asyncio
import logging
import ssl
from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

import penstock
from penstock.kernel import error_codes, json
from penstock.kernel.clock import Clock
from penstock.kernel.telemetry import Masker, with_traceparent
from penstock.llm.answers import Completion, NotReadable, completion_of, limits_of, retry_after, word
from penstock.llm.faults import CallFailed, Spent, TransportFault, complaint_of, failure_of
from penstock.llm.settings import LlmSettings

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_REASONS: tuple[tuple[type[Exception], str], ...] = (  # the first that fits
    (httpx.ConnectTimeout, "CONNECT_TIMEOUT"),
    (httpx.PoolTimeout, "POOL_TIMEOUT"),
    (httpx.TimeoutException, "TOO_SLOW"),
    (TimeoutError, "TOO_SLOW"),
    (httpx.ConnectError, "CONNECT_FAILED"),
    (httpx.RemoteProtocolError, "PROTOCOL_BROKEN"),
    (httpx.NetworkError, "CONNECTION_LOST"),
)
_SHOWN = 300  # characters of an endpoint's message that are told
_READ = 16_384
# Servers drop idle connections after five seconds and more; a request into one that was just dropped would be lost.
_POOL = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=3)


class Endpoint:
    """One per process."""

    def __init__(self, settings: LlmSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._key = settings.api_key.get_secret_value()
        self._masker = Masker()
        self._client: httpx.AsyncClient | None = None
        for name in ("httpx", "httpcore"):  # they would log every address
            logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger(name).level))

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def complete(self, body: Mapping[str, Any]) -> Completion:
        try:
            async with asyncio.timeout(self._settings.timeout.total_seconds()):
                status, headers, raw = await self._exchange(json.dump_bytes(body))
        except (httpx.HTTPError, TimeoutError, ssl.SSLError, OSError) as failure:
            raise _silent(failure) from None
        except (httpx.InvalidURL, ValueError):
            raise CallFailed(error_codes.LLM_REQUEST_REFUSED, reason="ADDRESS_NOT_USABLE") from None
        return self._read(status, headers, raw)

    async def _exchange(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {
            "User-Agent": f"Penstock/{penstock.__version__}",
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # a small answer must not unpack into a large one
            "Content-Type": "application/json",
        }
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        with_traceparent(headers)
        url = f"{self._settings.base_url}/chat/completions"
        async with self._http().stream("POST", url, content=body, headers=headers) as answer:
            plain = {name.lower(): value[:4096] for name, value in answer.headers.items()}
            return answer.status_code, plain, await self._whole(answer)

    async def _whole(self, answer: httpx.Response) -> bytes:
        most, body = int(self._settings.max_answer), bytearray()
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise TransportFault("UNKNOWN_ENCODING", spent=Spent.UNKNOWN)
        async for piece in answer.aiter_raw():
            body += piece
            if len(body) > most:
                failed = CallFailed(error_codes.LLM_OUTPUT_INVALID, reason="TOO_LARGE", limit=most)
                failed.details["errors"] = [{"path": "", "message": f"the answer has more than {most} bytes"}]
                failed.spent = Spent.UNKNOWN
                raise failed
        return bytes(body)

    def _read(self, status: int, headers: Mapping[str, str], raw: bytes) -> Completion:
        try:
            said = json.loads(raw)  # blank lines before it, sent to keep the connection alive, are white space
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            said = None
        request_id = word(headers.get("x-request-id"))
        if status >= 300 or status < 200 or _is_error(said):
            raise self._refusal(_status_in(said, status), headers, said, raw)
        try:
            return completion_of(said, request_id, limits_of(headers, self._clock.now()))
        except NotReadable:
            unread = TransportFault("ANSWER_NOT_READABLE", spent=Spent.UNKNOWN, content_type=_type(headers))
            unread.request_id = request_id
            raise unread from None

    def _refusal(self, status: int, headers: Mapping[str, str], said: Any, raw: bytes) -> CallFailed:
        text = complaint_of(said).get("message") or raw[:_READ].decode(errors="replace")
        failed = failure_of(status, said, self._shown(text))
        failed.request_id = word(headers.get("x-request-id"))
        failed.after = retry_after(headers, self._clock.now()) if failed.may_pass else None
        advice = headers.get("x-should-retry", "").strip().lower()
        if advice == "false":
            failed.may_pass = False
        elif advice == "true" and failed.code in {error_codes.LLM_REQUEST_REFUSED, error_codes.LLM_UNAVAILABLE}:
            failed.may_pass, failed.complaint = True, ""
        return failed

    def _shown(self, text: str) -> str:
        """Masked before it is cut: no half of a key is left at the edge."""
        text = text[:_READ]
        if self._key:
            text = text.replace(self._key, "<masked>")
        return self._masker.text(text)[:_SHOWN]

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            whole = self._settings.timeout.total_seconds()
            is_plain = self._settings.base_url.startswith("http://")  # then certificates would be loaded for nothing
            self._client = httpx.AsyncClient(
                timeout=httpx.Timeout(whole, connect=self._settings.connect_timeout.total_seconds()),
                limits=_POOL,
                verify=False if is_plain else httpx.create_ssl_context(),
                trust_env=False,  # keys and proxies come from our settings, not from the machine's .netrc
                follow_redirects=False,
            )
        return self._client


def _silent(failure: Exception) -> TransportFault:
    reason = next((word for kind, word in _REASONS if isinstance(failure, kind)), "NETWORK_FAILED")
    return TransportFault(reason, spent=Spent.NOTHING if isinstance(failure, _NOT_SENT) else Spent.UNKNOWN)


def _is_error(said: Any) -> bool:
    """Some gateways tell errors with status 200."""
    return isinstance(said, dict) and not said.get("choices") and ("error" in said or said.get("object") == "error")


def _status_in(said: Any, status: int) -> int:
    if not 200 <= status < 300:
        return status
    code = complaint_of(said).get("code", "")
    return int(code) if code.isdecimal() and 400 <= int(code) <= 599 else 502


def _type(headers: Mapping[str, str]) -> str | None:
    return word(headers.get("content-type"))
