"""Is an address free to listen on? Asked before anything is started, answered with a sentence."""

import errno
import socket
from collections.abc import Collection

import psutil

from penstock.embedded.failure import EmbeddedFailure
from penstock.kernel.listening import try_listening


def free_port(host: str, *, but: Collection[int] = ()) -> int:
    """Any port that is free right now, but none of these."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, 0))
            found = int(probe.getsockname()[1])
            return found if found not in but else free_port(host, but=but)
    except OSError as failure:
        raise _refusal(host, 0, "--port", failure) from failure


def reachable(host: str) -> str:
    """An address to open on this machine: the wildcard is not one."""
    if host in {"0.0.0.0", "::", ""}:  # noqa: S104  compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def refuse_taken(host: str, port: int, *, option: str) -> None:
    """Raise unless we could listen on host:port; names the process in the way when that can be told."""
    try:
        try_listening(host, port)
    except OSError as failure:
        raise _refusal(host, port, option, failure) from failure


def is_free(host: str, port: int) -> bool:
    try:
        try_listening(host, port)
    except OSError:
        return False
    return True


def listener(port: int) -> str | None:
    """Name and pid of whoever listens on a port, when the system lets us see."""
    try:
        for found in psutil.net_connections("tcp"):
            if found.status == psutil.CONN_LISTEN and found.laddr.port == port and found.pid:
                return f"{psutil.Process(found.pid).name()}, process {found.pid}"
    except psutil.Error:
        return None
    return None


def is_loopback(host: str) -> bool:
    try:
        addresses = {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return all(address.startswith("127.") or address == "::1" for address in addresses)


def _refusal(host: str, port: int, option: str, failure: OSError) -> EmbeddedFailure:
    if failure.errno == errno.EADDRINUSE:
        who = listener(port)
        return EmbeddedFailure(
            f"Port {port} on {host} is taken{f' by {who}' if who else ''}: stop that program, or choose another port"
            f" with {option} (0 picks a free one).",
            f"{host} 的端口 {port} 已被占用{f'（{who}）' if who else ''}：请停止该程序，或用 {option} 指定其他端口"
            "（0 表示自动选择）。",
        )
    if failure.errno == errno.EACCES:
        return EmbeddedFailure(
            f"This account may not listen on port {port}: choose a port above 1023 with {option}.",
            f"当前账号无权监听端口 {port}：请用 {option} 指定大于 1023 的端口。",
        )
    return EmbeddedFailure(
        f"{host} is not an address of this machine ({failure.strerror or failure}): choose another with --host.",
        f"{host} 不是本机地址（{failure.strerror or failure}）：请用 --host 指定其他地址。",
    )
