"""HTTP on a port: whether the port is free, and a server that is hard to hold up.

A taken port is asked for before a server binds it, because servers answer that question with a stack trace.

The server speaks HTTP/1.1 only: header blocks of HTTP/2 cost memory for as long as a client likes, and nothing here
needs it. Headers have to arrive as a whole within `HEADER_SECONDS`, counted from the connection or from the last answer
on, so silent connections and idle ones end then too.
"""

import errno
import socket
from collections.abc import Callable
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server

from penstock.kernel.settings import SettingsError

HEADER_SECONDS = 10
_LARGEST_HEADERS = 64 << 10
_BACKLOG = 1024


def http_server(app: Callable[..., Any], host: str, port: int, *, places: int) -> Server:
    """A server that is not started yet; it takes `places` connections at once, the others wait in the system."""
    return Server(
        app,
        address=host,
        port=port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        http1_settings=HTTP1Settings(header_read_timeout=HEADER_SECONDS * 1000, max_buffer_size=_LARGEST_HEADERS),
        websockets=False,
        backlog=_BACKLOG,
        backpressure=places,
        log_enabled=False,
    )


def try_listening(host: str, port: int) -> None:
    """Listens for an instant; OSError says why one cannot."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        probe.listen()


def refuse_taken_port(host: str, port: int, setting: str) -> None:
    """Raises a sentence that names the port, and the setting to change."""
    try:
        try_listening(host, port)
    except OSError as refusal:
        raise SettingsError(_sentence(refusal, host, port, setting)) from None


def _sentence(refusal: OSError, host: str, port: int, setting: str) -> str:
    if isinstance(refusal, socket.gaierror):
        return f"PENSTOCK_HOST is {host!r}, which is not an address of this machine"
    if refusal.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken by another program: stop it, or set {setting} to a free port"
    if refusal.errno == errno.EACCES:
        return f"port {port} on {host} needs more rights than this process has: set {setting} to a port above 1023"
    return f"cannot listen on {host} port {port}: {refusal.strerror}; see PENSTOCK_HOST and {setting}"
