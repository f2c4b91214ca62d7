"""Is a port free? Asked before a server binds it, because servers answer that question with a stack trace."""

import errno
import socket

from penstock.kernel.settings import SettingsError


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
