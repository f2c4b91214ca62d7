"""Where a name on the network leads: into the public internet, or into our own network."""

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

_UNICAST, _OVER_IPV4 = ipaddress.IPv6Network("2000::/3"), ipaddress.IPv6Network("2002::/16")
_TO_IPV4 = ipaddress.IPv6Network("64:ff9b::/96")  # how a network without IPv4 reaches it
_LOOKING_UP = ThreadPoolExecutor(8, thread_name_prefix="names")


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
    return address.is_global and not address.is_multicast


async def look_up(host: str, port: int, seconds: float) -> list[str]:
    """In threads of its own: names are strangers', and whoever answers for one may take half a minute.

    NameUnknown; TimeoutError.
    """
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    try:
        async with asyncio.timeout(seconds):
            found = await asyncio.get_running_loop().run_in_executor(_LOOKING_UP, ask)
    except (socket.gaierror, UnicodeError) as failure:
        raise NameUnknown(host) from failure
    return [str(info[4][0]) for info in found]
