"""HTTP with MinerU: one request, one bounded answer, or an error that says why in a word.

The token goes to the configured origin and nowhere else. Links that the service gives are a stranger's: https or the
service's own origin, and never into our network unless the service is there itself; the connection is made to the
very address that was checked. Invariant: httpx's messages end here, because they hold addresses with signatures.
"""

import asyncio
import functools
import http.cookiejar
import logging
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import msgspec

import penstock
from penstock.extraction.providers.mineru.refusals import LinkDead, not_understood, said, unavailable
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.kernel import json
from penstock.kernel.addresses import NameUnknown, is_public, look_up
from penstock.kernel.outbound import PinnedTransport, anywhere

_MIB = 1024 * 1024
_LARGEST_ANSWER = 8 * _MIB  # of anything but a result
_PIECE = 256 * 1024
_LOOK_UP_SECONDS = 5.0
_MOST_REDIRECTS = 3
_DEAD = frozenset({400, 401, 403, 404, 410})  # what stores say of a link that was signed too long ago
_REASONS: tuple[tuple[type[Exception], str], ...] = (  # the first that fits
    (httpx.ConnectTimeout, "CONNECT_TIMEOUT"),
    (httpx.ReadTimeout, "READ_TIMEOUT"),
    (httpx.WriteTimeout, "WRITE_TIMEOUT"),
    (httpx.ConnectError, "CONNECT_FAILED"),
    (httpx.RemoteProtocolError, "PROTOCOL_BROKEN"),
    (httpx.NetworkError, "CONNECTION_LOST"),
    (TimeoutError, "TOO_SLOW"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is parsed JSON, or None when it was none."""

    status: int
    body: Any

    def __getitem__(self, name: str) -> Any:
        return self.body.get(name) if isinstance(self.body, dict) else None


@dataclass(frozen=True, slots=True)
class Sent:
    """What goes with a request."""

    query: Sequence[tuple[str, str]] = ()
    json: Any = None
    fields: Mapping[str, Any] | None = None  # of a form, beside the file
    file: tuple[str, Path, str] | None = None  # name, where, media type: as the field `files` of a form
    raw: Path | None = None  # as the body itself
    lasts: timedelta | None = None


class Web:
    """One per provider."""

    def __init__(self, settings: MineruSettings) -> None:
        self._settings = settings
        self._token = settings.token.get_secret_value()
        self._home = _origin(settings.base_url)
        self._made: dict[bool, httpx.AsyncClient] = {}
        for name in ("httpx", "httpcore"):  # they would log every address with its query
            logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger(name).level))

    def _client(self, *, for_links: bool = False) -> httpx.AsyncClient:
        """Made when it is first needed. Links are a stranger's, so where each leads is judged when we connect."""
        if for_links not in self._made:
            read = self._settings.read_timeout_seconds.total_seconds()
            self._made[for_links] = httpx.AsyncClient(
                timeout=httpx.Timeout(read, connect=self._settings.connect_timeout_seconds.total_seconds()),
                transport=PinnedTransport(self._judge_link if for_links else anywhere, verify=_tls()),
                follow_redirects=False,
                headers={"User-Agent": f"Penstock/{penstock.__version__}", "Accept-Encoding": "identity"},
                cookies=http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=[])),
            )
        return self._made[for_links]

    async def close(self) -> None:
        for client in self._made.values():
            await client.aclose()

    def hushed(self, text: Any) -> str:
        return said(text, self._token)

    async def ask(self, method: str, url: str, sent: Sent | None = None) -> Answer:
        """To the service itself, with the token."""
        async with self._answered(method, url, sent or Sent()) as answer:
            return Answer(answer.status_code, _parsed(await _bounded(answer, _LARGEST_ANSWER)))

    async def ask_for_result(self, method: str, url: str, into: Path, sent: Sent | None = None) -> Answer:
        """As `ask`, but the body of a 200 goes into a file, and `body` is None."""
        async with self._answered(method, url, sent or Sent()) as answer:
            if answer.status_code != 200:
                return Answer(answer.status_code, _parsed(await _bounded(answer, _LARGEST_ANSWER)))
            await self._save(answer, into)
            return Answer(200, None)

    async def put(self, link: str, path: Path) -> None:
        """Bytes to a signed link: neither token nor Content-Type, which would break the signature. LinkDead."""
        seconds = self._settings.transfer_timeout_seconds
        async with self._followed("PUT", link, seconds, path) as answer:
            if answer.status_code in _DEAD:
                raise LinkDead
            if not answer.is_success:
                raise unavailable("UPLOAD_FAILED", upstream_code=answer.status_code)

    async def download(self, link: str, into: Path) -> None:
        """LinkDead when it has expired."""
        for _ in range(_MOST_REDIRECTS + 1):
            async with self._followed("GET", link, self._settings.transfer_timeout_seconds) as answer:
                if answer.status_code == 200:
                    await self._save(answer, into)
                    return
                if answer.status_code in _DEAD:
                    raise LinkDead
                if not answer.is_redirect or "location" not in answer.headers:
                    raise unavailable("DOWNLOAD_FAILED", upstream_code=answer.status_code)
                link = urljoin(link, answer.headers["location"])
        raise not_understood("TOO_MANY_REDIRECTS")

    @asynccontextmanager
    async def _answered(self, method: str, url: str, sent: Sent) -> AsyncIterator[httpx.Response]:
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        given: dict[str, Any] = {"params": list(sent.query) or None}
        async with _errors_named(sent.lasts or self._settings.transfer_timeout_seconds):
            if sent.file is not None:
                name, path, media_type = sent.file
                with path.open("rb") as file:
                    given |= {"files": {"files": (name, file, media_type)}, "data": dict(sent.fields or {})}
                    async with self._sending(method, url, headers, given, sent.lasts) as answer:
                        yield answer
                return
            if sent.raw is not None:
                given["content"] = _pieces(sent.raw)
                size = await asyncio.to_thread(_size, sent.raw)
                headers |= {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
            elif sent.json is not None:
                given["json"] = sent.json
            async with self._sending(method, url, headers, given, sent.lasts) as answer:
                yield answer

    @asynccontextmanager
    async def _sending(
        self, method: str, url: str, headers: dict[str, str], given: dict[str, Any], lasts: timedelta | None
    ) -> AsyncIterator[httpx.Response]:
        if lasts is not None:  # the other side works before its first byte
            connect = self._settings.connect_timeout_seconds.total_seconds()
            given["timeout"] = httpx.Timeout(lasts.total_seconds(), connect=connect)
        async with self._client().stream(method, url, headers=headers, **given) as answer:
            yield answer

    @asynccontextmanager
    async def _followed(
        self, method: str, link: str, lasts: timedelta, body: Path | None = None
    ) -> AsyncIterator[httpx.Response]:
        async with _errors_named(lasts):
            self._check_link(link)
            headers = {}
            if body is not None:
                headers["Content-Length"] = str(await asyncio.to_thread(_size, body))
            async with self._client(for_links=True).stream(
                method, link, headers=headers, content=None if body is None else _pieces(body)
            ) as answer:
                yield answer

    def _check_link(self, link: str) -> None:
        """OCR_ANSWER_INVALID for a link that we must not follow. Says nothing of the link: it holds a signature."""
        there = _origin(link)
        if there[0] not in {"http", "https"} or not there[1] or urlsplit(link).username is not None:
            raise not_understood("LINK_MALFORMED")
        if there[0] != "https" and there != self._home:
            raise not_understood("LINK_NOT_HTTPS")

    async def _judge_link(self, host: str, addresses: Sequence[str]) -> None:
        """Into our own network only when the service itself is there."""
        is_inside = not all(map(is_public, addresses))
        if is_inside and host != self._home[1] and all(map(is_public, await _looked_up(self._home))):
            raise not_understood("LINK_TO_PRIVATE")

    async def _save(self, answer: httpx.Response, into: Path) -> None:
        limit, size = self._settings.max_result_mb * _MIB, 0
        with into.open("wb") as file:
            async for piece in answer.aiter_bytes(_PIECE):
                size += len(piece)
                if size > limit:
                    raise not_understood("RESULT_TOO_LARGE", limit_mb=self._settings.max_result_mb)
                await asyncio.to_thread(file.write, piece)


@functools.cache
def _tls() -> ssl.SSLContext:
    """One for all: reading the certificates takes a while."""
    return httpx.create_ssl_context()


@asynccontextmanager
async def _errors_named(lasts: timedelta) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(lasts.total_seconds()):
            yield
    except (httpx.DecodingError, httpx.InvalidURL, httpx.UnsupportedProtocol):
        raise not_understood("NOT_HTTP") from None
    except (httpx.HTTPError, ssl.SSLError, TimeoutError) as failure:
        word = next((word for kind, word in _REASONS if isinstance(failure, kind)), "NETWORK_FAILED")
        raise unavailable(word) from None


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece


def _size(path: Path) -> int:
    return path.stat().st_size


async def _bounded(answer: httpx.Response, limit: int) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > limit:
            raise not_understood("ANSWER_TOO_LARGE", limit_mb=limit // _MIB)
    return bytes(body)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


async def _looked_up(origin: tuple[str, str, int]) -> list[str]:
    try:
        return await look_up(origin[1], origin[2], _LOOK_UP_SECONDS)
    except (NameUnknown, TimeoutError):
        raise unavailable("NAME_UNKNOWN") from None


def _origin(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise not_understood("LINK_MALFORMED") from None
    return parts.scheme, parts.hostname or "", port
