"""Connections to hosts that strangers name: resolve, judge, connect to the very address that was judged.

A name may lead elsewhere a moment after it was looked up. So it is looked up where a connection is made, all of its
addresses are judged, and only those are connected to. The request keeps its name: for `Host`, for the certificate, and
for the pool, which never lends a connection that was made for one name to another. A connection that is kept alive
stays where it is. Behind a proxy the address that is judged is the proxy's; the proxy looks the names up.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpcore
import httpx

from penstock.kernel.addresses import NameUnknown, is_public, look_up

_share: ContextVar[asyncio.Semaphore | None] = ContextVar("look_ups", default=None)
Judge = Callable[[str, Sequence[str]], Awaitable[None]]  # host, its addresses; raises to refuse
_AT_ONCE = 2048  # bytes; about 80 answers of the shortest kind
_SECONDS = 30.0  # to connect, where the caller sets no limit


class AddressRefused(Exception):
    """The host leads into our own network."""


async def public_only(host: str, addresses: Sequence[str]) -> None:
    if not all(map(is_public, addresses)):
        raise AddressRefused(host)


async def anywhere(host: str, addresses: Sequence[str]) -> None:
    """For an operator who allows private addresses."""


@contextmanager
def look_ups_within(share: asyncio.Semaphore) -> Iterator[None]:
    """Names that a request in this block has to look up take no more threads at once than `share` has places."""
    before = _share.set(share)
    try:
        yield
    finally:
        _share.reset(before)


class PinnedTransport(httpx.AsyncHTTPTransport):
    """As httpx's own, with its options; what `judge` raises comes out of the request.

    `most_bytes` may be read for one request, if given: for callers who want the status of an answer and no more.
    """

    def __init__(self, judge: Judge, *, most_bytes: int | None = None, **options: Any) -> None:
        super().__init__(trust_env=False, **options)
        pool: Any = self._pool  # the pool takes a backend, but httpx does not hand one on
        pool._network_backend = PinnedBackend(judge, pool._network_backend, most_bytes)  # noqa: SLF001


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """How a pool of connections reaches the network."""

    def __init__(self, judge: Judge, beneath: httpcore.AsyncNetworkBackend, most_bytes: int | None = None) -> None:
        self._judge = judge
        self._beneath = beneath
        self._most_bytes = most_bytes

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  as the pool calls it
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Tries one address after the other, each with its share of the time."""
        stream = await self._connect(host, port, timeout, local_address, socket_options)
        return stream if self._most_bytes is None else _ShortAnswers(stream, self._most_bytes)

    async def _connect(
        self,
        host: str,
        port: int,
        timeout: float | None,  # noqa: ASYNC109  as the pool calls it
        local_address: str | None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None,
    ) -> httpcore.AsyncNetworkStream:
        seconds = _SECONDS if timeout is None else timeout
        try:
            addresses = await look_up(host, port, seconds, _share.get())
        except NameUnknown:
            raise httpcore.ConnectError("the host name is not known") from None
        except TimeoutError:
            raise httpcore.ConnectTimeout("the host name was not looked up in time") from None
        await self._judge(host, addresses)
        for address in addresses[:-1]:
            try:
                return await self._beneath.connect_tcp(
                    address, port, seconds / len(addresses), local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._beneath.connect_tcp(
            addresses[-1], port, seconds / len(addresses), local_address, socket_options
        )

    async def sleep(self, seconds: float) -> None:
        await self._beneath.sleep(seconds)


class _ShortAnswers(httpcore.AsyncNetworkStream):
    """A connection of which few bytes are read for each request, a few at a time.

    A receiver may send `100 Continue` without end. The library passes over these in one go, as many as were read, so
    long reads would hold up everybody else on the event loop, and nothing but a time-out would end it.
    """

    def __init__(self, beneath: httpcore.AsyncNetworkStream, most_bytes: int) -> None:
        self._beneath = beneath
        self._most = self._left = most_bytes

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  as the pool calls it
        if self._left <= 0:
            raise httpcore.RemoteProtocolError(f"no whole answer within {self._most} bytes")
        data = await self._beneath.read(min(max_bytes, self._left, _AT_ONCE), timeout)
        self._left -= len(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  as above
        self._left = self._most
        await self._beneath.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._beneath.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  as above
    ) -> httpcore.AsyncNetworkStream:
        return _ShortAnswers(await self._beneath.start_tls(ssl_context, server_hostname, timeout), self._most)

    def get_extra_info(self, info: str) -> Any:
        return self._beneath.get_extra_info(info)
