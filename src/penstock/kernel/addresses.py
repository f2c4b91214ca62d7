"""Where a name on the network leads: into the public internet, or into our own network."""

import asyncio
import ipaddress
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

_UNICAST, _OVER_IPV4 = ipaddress.IPv6Network("2000::/3"), ipaddress.IPv6Network("2002::/16")
_TO_IPV4 = ipaddress.IPv6Network("64:ff9b::/96")  # how a network without IPv4 reaches it
_NOT_PUBLIC = tuple(  # `is_global` takes these for public: documentation, a dummy address, a cloud's own services
    ipaddress.ip_network(each) for each in ("3fff::/20", "192.0.0.0/24", "168.63.129.16/32")
)
_LOOKING_UP = ThreadPoolExecutor(32, thread_name_prefix="names")


_SHARE = 4  # of these threads, for one merchant's names
_shares: WeakValueDictionary[tuple[int, str], asyncio.Semaphore] = WeakValueDictionary()  # gone when nobody looks up


class NameUnknown(Exception):
    """Nobody answers for the name."""


def is_public(text: str) -> bool:
    """`is_global` alone lets through groups, and IPv6 addresses that a gateway turns into private IPv4 ones."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        if address in _TO_IPV4:
            return is_public(str(ipaddress.IPv4Address(address.packed[-4:])))
        if address not in _UNICAST or address in _OVER_IPV4:
            return False
    return address.is_global and not address.is_multicast and not any(address in each for each in _NOT_PUBLIC)


def share_of(merchant_id: str) -> asyncio.Semaphore:
    """The threads that one merchant's names may take at once in this process."""
    return _shares.setdefault((id(asyncio.get_running_loop()), merchant_id), asyncio.Semaphore(_SHARE))


async def look_up(host: str, port: int, seconds: float, share: asyncio.Semaphore | None = None) -> list[str]:
    """In threads of its own: names are strangers', and whoever answers for one may take half a minute.

    A thread cannot be stopped. With `share` it counts until it ends, so that one merchant's slow names do not take all
    of them. NameUnknown; TimeoutError.
    """
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        async with asyncio.timeout(seconds):
            if share is not None:
                await share.acquire()
            asking = _LOOKING_UP.submit(ask)
            if share is not None:
                asking.add_done_callback(partial(_release, asyncio.get_running_loop(), share))
            found = await asyncio.wrap_future(asking)
    except (socket.gaierror, UnicodeError) as failure:
        raise NameUnknown(host) from failure
    return [str(info[4][0]) for info in found]


def _release(loop: asyncio.AbstractEventLoop, share: asyncio.Semaphore, _: Future[Any]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(share.release)
