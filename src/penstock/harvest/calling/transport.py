"""HTTP: one request, one whole answer, or an error that says why in a word.

Connections are kept alive, one pool for each shape (proxy and time-outs). Redirects are followed by hand, so that a
credential never goes to another origin. Where a connection leads is judged when it is made, and it goes to the very
address that was judged: a source that was applied over the API stays in the public internet, and so does a redirect of
a source that is there. Invariant: httpx's own messages end here, because they hold addresses, and addresses may hold
keys; a body that did not arrive whole is never returned.
"""

import asyncio
import http.cookiejar
import logging
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

import anyio
import httpx

import penstock
from penstock.harvest.calling.answers import Answer
from penstock.harvest.calling.inflating import Body, BodyTrouble
from penstock.harvest.calling.request import Origin, Request, origin_of
from penstock.harvest.spec import Http, Sections, Spec
from penstock.kernel import error_codes
from penstock.kernel.addresses import NameUnknown, is_public, look_up
from penstock.kernel.errors import PenstockError
from penstock.kernel.outbound import AddressRefused, PinnedTransport, anywhere, public_only
from penstock.kernel.telemetry import with_traceparent

CORRELATION = "X-Ingest-Correlation-Id"
_MOST_REDIRECTS = 3
_LOOK_UP_SECONDS = 5.0
_REMEDY = "penstock harvest apply, or PENSTOCK_HARVEST_ALLOW_PRIVATE"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PATIENCE = 4  # a body may take so many read time-outs in all
_PER_POOL = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=60)
_REASONS: tuple[tuple[type[Exception], str], ...] = (  # the first that fits
    (httpx.ConnectTimeout, "CONNECT_TIMEOUT"),
    (httpx.ReadTimeout, "READ_TIMEOUT"),
    (httpx.WriteTimeout, "WRITE_TIMEOUT"),
    (httpx.PoolTimeout, "POOL_TIMEOUT"),
    (httpx.ProxyError, "PROXY_FAILED"),
    (httpx.ConnectError, "CONNECT_FAILED"),
    (httpx.ReadError, "CONNECTION_LOST"),
    (httpx.WriteError, "CONNECTION_LOST"),
    (httpx.RemoteProtocolError, "PROTOCOL_BROKEN"),
    (TimeoutError, "TOO_SLOW"),
)


@dataclass(frozen=True, slots=True)
class Additions:
    """What authentication puts onto a request; `secrets` are to be masked in whatever comes back."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    fields: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


class Transports:
    """The ways out of one process: one into the public internet, one anywhere, for sources of the operator's own."""

    def __init__(self, *, allow_private: bool = False) -> None:
        self._anywhere = Transport(allow_private=True)
        self._public = self._anywhere if allow_private else Transport()

    def of(self, spec: Spec) -> "Transport":
        return self._anywhere if spec.allows_private else self._public

    async def close(self) -> None:
        await self._anywhere.close()
        await self._public.close()


class Transport:
    """One of them."""

    def __init__(self, *, allow_private: bool = False) -> None:
        self._allow_private = allow_private
        self._clients: dict[tuple[Any, ...], httpx.AsyncClient] = {}
        self._tls: ssl.SSLContext | None = None
        for name in ("httpx", "httpcore"):  # they would log every address with its query
            logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLogger(name).level))

    async def close(self) -> None:
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    def ready(self, sections: Sections) -> None:
        """The first request of a process would otherwise wait for certificates and modules, permit in hand."""
        self._client(sections.http, is_judged=not self._allow_private)
        anyio.get_current_task()  # httpx loads its way of waiting when it first waits

    async def send(
        self, sections: Sections, request: Request, *, correlation_id: str, additions: Additions | None = None
    ) -> Answer:
        """SOURCE_UNAVAILABLE with a reason when there is no answer; SOURCE_ANSWER_INVALID for one out of bounds."""
        spec, more = sections.http, additions or Additions()
        total = spec.connect_timeout.total_seconds() + _PATIENCE * spec.read_timeout.total_seconds()
        started = time.monotonic()
        try:
            async with asyncio.timeout(total):
                status, headers, body = await self._exchange(spec, request, more, correlation_id)
        except (httpx.HTTPError, OSError) as failure:
            raise _unavailable(failure) from None
        except (httpx.InvalidURL, ValueError):  # a header or an address that cannot be put on the wire
            raise PenstockError(error_codes.SOURCE_REFUSED, reason="REQUEST_NOT_SENDABLE") from None
        except BodyTrouble as trouble:
            raise _unusable(trouble, spec) from None
        return Answer(status, headers, body, time.monotonic() - started)

    async def _exchange(
        self, spec: Http, request: Request, more: Additions, correlation_id: str
    ) -> tuple[int, dict[str, str], bytes]:
        body, body_type = request.with_fields(dict(more.fields)).content()
        headers = self._headers(spec, request, body_type, correlation_id)
        url, home, is_judged = request.address(), origin_of(request.url), not self._allow_private
        for hop in range(_MOST_REDIRECTS + 1):
            _check_scheme(url, spec)
            is_home = origin_of(url) == home
            sent = httpx.Request(
                request.method,
                _with_query(url, more.query) if is_home else url,
                headers={**headers, **more.headers} if is_home else _without_ours(headers, request),
                content=body,
            )
            answer = await self._sent(spec, sent, is_judged=is_judged, is_redirected=hop > 0)
            try:
                target = _redirect(spec, request, answer)
                if target is None:
                    return answer.status_code, _plain_headers(answer), await _whole_body(answer, spec)
                is_judged = is_judged or not await _is_inside(answer, home, spec)
            finally:
                await answer.aclose()
            if hop == _MOST_REDIRECTS:
                break
            url = urljoin(url, target)
            _check_redirect(home, origin_of(url))
        raise PenstockError(error_codes.SOURCE_REFUSED, reason="TOO_MANY_REDIRECTS")

    async def _sent(self, spec: Http, sent: httpx.Request, *, is_judged: bool, is_redirected: bool) -> httpx.Response:
        """Behind a proxy only the proxy is connected to, and the operator may have his own inside."""
        client = self._client(spec, is_judged=is_judged and (spec.proxy is None or not self._allow_private))
        sent.extensions["timeout"] = client.timeout.as_dict()
        try:
            if is_judged and spec.proxy is not None:
                await _judge_behind_proxy(origin_of(str(sent.url)))
            return await client.send(sent, stream=True)
        except AddressRefused:
            reason = "REDIRECT_TO_PRIVATE" if is_redirected else "ADDRESS_PRIVATE"
            raise PenstockError(error_codes.SOURCE_REFUSED, reason=reason, remedy=_REMEDY) from None

    def _headers(self, spec: Http, request: Request, body_type: str | None, correlation_id: str) -> dict[str, str]:
        ours = {
            "User-Agent": f"Penstock/{penstock.__version__}",
            "Accept-Encoding": "gzip, deflate" if spec.compression else "identity",
            CORRELATION: correlation_id,
        }
        if body_type is not None:
            ours["Content-Type"] = body_type
        with_traceparent(ours)
        said = {name.lower() for name in request.headers} - {"accept-encoding", CORRELATION.lower()}
        kept = {name: value for name, value in ours.items() if name.lower() not in said}
        names = {name.lower() for name in kept}
        return kept | {name: value for name, value in request.headers.items() if name.lower() not in names}

    def _client(self, spec: Http, *, is_judged: bool) -> httpx.AsyncClient:
        shape = (spec.proxy, spec.connect_timeout, spec.read_timeout, is_judged)
        client = self._clients.get(shape)
        if client is None:
            self._tls = self._tls or httpx.create_ssl_context()
            read = spec.read_timeout.total_seconds()
            # Proxies and secrets come from the source's file, not from the machine's environment or .netrc.
            client = self._clients[shape] = httpx.AsyncClient(
                timeout=httpx.Timeout(read, connect=spec.connect_timeout.total_seconds()),
                transport=PinnedTransport(
                    public_only if is_judged else anywhere, limits=_PER_POOL, verify=self._tls, proxy=spec.proxy
                ),
                trust_env=False,
                follow_redirects=False,
                cookies=http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=[])),
            )
        return client


async def _whole_body(answer: httpx.Response, spec: Http) -> bytes:
    announced = answer.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > spec.max_body_bytes:
        raise BodyTrouble("TOO_LARGE")
    body = Body(answer.headers.get("content-encoding", ""), spec.max_body_bytes)
    async for piece in answer.aiter_raw():
        body.feed(piece)
    return body.whole()


def _redirect(spec: Http, request: Request, answer: httpx.Response) -> str | None:
    if answer.status_code not in _REDIRECTS or not spec.follow_redirects or request.method != "GET":
        return None
    target: str | None = answer.headers.get("location")
    return target


def _check_redirect(home: Origin, there: Origin) -> None:
    if there[0] == "http" and home[0] == "https":
        raise PenstockError(error_codes.SOURCE_REFUSED, reason="REDIRECT_TO_HTTP")


async def _is_inside(answer: httpx.Response, home: Origin, spec: Http) -> bool:
    """Whether the source is in our own network: by the address that answered, or by its name behind a proxy.

    A source out in the world does not send us into our own network, where servers trust each other.
    """
    if spec.proxy is not None:
        return await _is_known_inside(home)
    stream = answer.extensions.get("network_stream")
    peer = stream.get_extra_info("server_addr") if stream is not None else None
    return peer is not None and not is_public(str(peer[0]))


async def _judge_behind_proxy(origin: Origin) -> None:
    """The proxy looks the name up; what we know to be in our own network we do not ask it for."""
    if await _is_known_inside(origin):
        raise AddressRefused(origin[1])


async def _is_known_inside(origin: Origin) -> bool:
    try:
        return not all(map(is_public, await look_up(origin[1], origin[2] or 443, _LOOK_UP_SECONDS)))
    except NameUnknown:  # known to the proxy, perhaps; else the request will fail
        return False


def _check_scheme(url: str, spec: Http) -> None:
    if origin_of(url)[0] != "https" and not spec.allow_http:
        raise PenstockError(error_codes.SOURCE_REFUSED, reason="HTTP_NOT_ALLOWED", remedy="allowHttp")


def _with_query(url: str, more: Mapping[str, str]) -> str:
    """A name that is there already is replaced."""
    if not more:
        return url
    parts = urlsplit(url)
    kept = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in more]
    return urlunsplit(parts._replace(query=urlencode([*kept, *more.items()])))


def _without_ours(headers: Mapping[str, str], request: Request) -> dict[str, str]:
    """For another origin: nothing that the source's file says, which was meant for the source."""
    private = {name.lower() for name in request.headers} - {"accept", "user-agent"}
    return {name: value for name, value in headers.items() if name.lower() not in private}


def _plain_headers(answer: httpx.Response) -> dict[str, str]:
    return {name.lower(): value[:4096] for name, value in answer.headers.items() if name.lower() != "set-cookie"}


def _unavailable(failure: Exception) -> PenstockError:
    reason = next((word for kind, word in _REASONS if isinstance(failure, kind)), "NETWORK_FAILED")
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            reason = "TLS_FAILED"
        cause = cause.__cause__ or cause.__context__
    return PenstockError(error_codes.SOURCE_UNAVAILABLE, reason=reason)


def _unusable(trouble: BodyTrouble, spec: Http) -> PenstockError:
    if trouble.kind == "TOO_LARGE":
        return PenstockError(error_codes.SOURCE_ANSWER_INVALID, reason="TOO_LARGE", limit=spec.max_body_bytes)
    if trouble.kind == "UNKNOWN_ENCODING":
        return PenstockError(error_codes.SOURCE_ANSWER_INVALID, reason="UNKNOWN_ENCODING")
    return PenstockError(error_codes.SOURCE_UNAVAILABLE, reason=f"BODY_{trouble.kind}")
