"""The sockets that this process has open, as Linux tells of them: who is at the other end, and how to cut one off.

A connection is known by the number of its socket, which the system never gives twice while it is open. A descriptor
may be closed and given again at any moment; so one that is to be closed is duplicated first and looked at again.
"""

import contextlib
import ctypes
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.kernel.trusted_peers import Peer, plain

# Called without giving up Python's lock: a thread that gives it up for each of 10,000 descriptors gets it back only
# when the event loop rests, and under load it would never get to the end.
_LIBC = ctypes.PyDLL(None)
_IDENTITY = 16  # st_dev and st_ino, with which the system's `struct stat` begins
_LONGEST_ADDRESS = 28  # sockaddr_in6
_GAP = 1024
_UNREAD_SECONDS = 30  # a peer that takes nothing of an answer for so long is gone to us
_UNSENT_BYTES = 128 << 10
_BYTES_RECEIVED = struct.Struct("=128xQ")  # in Linux's tcp_info
_ABORT = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Connection:
    """One that the process has accepted; `since` is when it was first seen."""

    identity: bytes
    descriptor: int
    peer: Peer
    since: float


class _Answers(threading.local):
    """Where the C library writes; each thread has its own."""

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(256)


_ANSWERS = _Answers()


def descriptors(highest: int) -> Iterator[tuple[int, bytes]]:
    """The open descriptors with their identities.

    The system gives the lowest number that is free: beyond the highest that was open at the last look, a long gap is
    the end.
    """
    missing = descriptor = 0
    while descriptor <= highest or missing < _GAP:
        found = identity(descriptor)
        if found is None:
            missing += 1
        else:
            missing = 0
            yield descriptor, found
        descriptor += 1


def identity(descriptor: int) -> bytes | None:
    """Device and number of what is open under a descriptor; None when nothing is."""
    buffer = _ANSWERS.buffer
    return buffer.raw[:_IDENTITY] if _LIBC.fstat(descriptor, buffer) == 0 else None


def peer_on(port: int, descriptor: int) -> Peer | None:
    """The other end of a connection of our port; None for anything else."""
    own = _address(_LIBC.getsockname, descriptor)
    if own is None or own[1] != port:
        return None
    peer = _address(_LIBC.getpeername, descriptor)
    if peer is None:
        _bound_unread_answers(descriptor)
    return peer


def close(connection: Connection, *, spared_from: int | None = None) -> bool:
    """False when it was gone already, or has sent `spared_from` bytes."""
    try:
        with _duplicate(connection.descriptor) as ours:
            if identity(ours.fileno()) != connection.identity:
                return False
            if spared_from is not None and _bytes_received(ours) >= spared_from:
                return False
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)  # leaves nothing behind in the system
            ours.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False
    return True


def _address(ask: Callable[..., int], descriptor: int) -> Peer | None:
    """One end of a socket of IPv4 or IPv6."""
    size, buffer = ctypes.c_uint(_LONGEST_ADDRESS), _ANSWERS.buffer
    if ask(descriptor, buffer, ctypes.byref(size)) != 0:
        return None
    raw = buffer.raw
    family, port = int.from_bytes(raw[:2], sys.byteorder), int.from_bytes(raw[2:4], "big")
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[4:8]), port
    if family == socket.AF_INET6:
        return plain(socket.inet_ntop(socket.AF_INET6, raw[8:24])), port
    return None


def _bound_unread_answers(descriptor: int) -> None:
    """Has the system keep little for clients that read nothing of their answer, and end their connections.

    Connections inherit it from a listener. 600 unread answers of 1.5 MB each filled the memory that the system has for
    sockets, and everybody's connections stood still.
    """
    with contextlib.suppress(OSError), _duplicate(descriptor) as ours:
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_SECONDS * 1000)


@contextlib.contextmanager
def _duplicate(descriptor: int) -> Iterator[socket.socket]:
    """The same socket under a descriptor of our own, which nobody else can close meanwhile."""
    own = os.dup(descriptor)
    try:
        made = socket.socket(fileno=own)
    except BaseException:
        os.close(own)
        raise
    with made:
        yield made


def _bytes_received(ours: socket.socket) -> int:
    found = ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
    return int(_BYTES_RECEIVED.unpack(found)[0]) if len(found) == _BYTES_RECEIVED.size else 0
