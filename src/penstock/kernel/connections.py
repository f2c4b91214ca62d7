"""Limits the connections of one port, from inside the process that listens on it.

The servers accept in Rust and in C, where no hook of ours runs, and `penstock up` has no proxy in front. So a thread
looks at the process's own sockets a few times a second. A connection is anonymous until a signed-in request has come
over it: an edge then calls `trust`. Only anonymous connections count against the limits and only they are closed.

Who is closed: beyond the limit of one address the oldest of that address, beyond the limit of the port the oldest of
all, but none that is younger than `_GRACE_SECONDS`: a client that means it has sent its request long before that. When
the places of the port run out, age does not count either. A connection that is sending a body of some size is taken
only when the others are not enough. Nobody is turned away at the door, so the newest caller always gets in, also where
callers and attackers share an address.

A connection is known by the number of its socket, which the system never gives twice while it is open. A descriptor
may be closed and given again at any moment; so one that is to be closed is duplicated first and looked at again.
Only Linux tells all this: elsewhere nothing is limited here.
"""

import contextlib
import ctypes
import os
import resource
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

import prometheus_client
import structlog

from penstock.kernel.runtime import RuntimeSettings

log = structlog.get_logger(__name__)
Peer = tuple[str, int]
Networks = tuple[IPv4Network | IPv6Network, ...]

OPEN = prometheus_client.Gauge(
    "penstock_connections", "Open connections by listener", ["listener"], multiprocess_mode="livesum"
)
CLOSED = prometheus_client.Counter(
    "penstock_connections_closed_total", "Anonymous connections that were closed to make room", ["listener"]
)

# Called without giving up Python's lock: a thread that gives it up for each of 10,000 descriptors gets it back only
# when the event loop rests, and under load it would never get to the end.
_LIBC = ctypes.PyDLL(None)
_IDENTITY = 16  # st_dev and st_ino, with which the system's `struct stat` begins
_LONGEST_ADDRESS = 28  # sockaddr_in6
_GAP = 1024
_GRACE_SECONDS = 1.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 0.5  # seconds between two looks
_SHARE_OF_TIME, _SHARE_WHEN_FULL = 0.1, 0.25  # that looking takes at the most
_SECONDS_BETWEEN_WARNINGS = 10.0
_UNREAD_SECONDS = 30  # a peer that takes nothing of an answer for so long is gone to us
_UNSENT_BYTES = 128 << 10
_BODY_BYTES = 64 << 10  # who has sent so much sends a body, and is closed last
_BYTES_RECEIVED = struct.Struct("=128xQ")  # in Linux's tcp_info
_DESCRIPTORS_KEPT = 1024  # for files, databases and the like
_ABORT = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many anonymous connections a port and one address may have; `places` is what the server takes in all."""

    anonymous: int
    per_address: int
    places: int
    exempt: Networks = ()  # from the limit per address


class TrustedPeers:
    """The connections over which a signed-in request has come."""

    def __init__(self) -> None:
        self._since: dict[Peer, float] = {}

    def trust(self, host: str, port: int | str) -> None:
        self._since[_plain(host), int(port)] = time.monotonic()

    def __contains__(self, peer: Peer) -> bool:
        return peer in self._since

    def forget(self, peers: Iterable[Peer], *, before: float) -> None:
        """Drops peers whose connection has ended, unless a new one from the same port has signed in since."""
        for peer in peers:
            if self._since.get(peer, before) < before:
                self._since.pop(peer, None)


class _Answers(threading.local):
    """Where the C library writes; each thread has its own."""

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(256)


_ANSWERS = _Answers()


@dataclass(frozen=True, slots=True)
class _Connection:
    identity: bytes
    descriptor: int
    peer: Peer
    since: float


def networks(text: str) -> Networks:
    """Reads addresses and networks, separated by commas. ValueError for what is neither."""
    return tuple(ip_network(part.strip(), strict=False) for part in text.split(",") if part.strip())


def limits_of(runtime: RuntimeSettings, places: int) -> ConnectionLimits:
    """The limits that the settings set for each port."""
    allowed = min(runtime.anonymous_connections, places // 2)
    return ConnectionLimits(allowed, runtime.anonymous_connections_per_address, places, networks(runtime.proxies))


def places_for(share: float, most: int) -> int:
    """The connections that one of the process's ports may hold: a share of what the system allows the process."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed == resource.RLIM_INFINITY:
        return most
    return max(64, min(most, int((allowed - min(allowed // 2, _DESCRIPTORS_KEPT)) * share)))


class ConnectionLimiter:
    """Closes anonymous connections of `port` that are too many. `listener` names the port in logs and metrics."""

    def __init__(
        self,
        listener: str,
        port: int,
        limits: ConnectionLimits,
        *,
        trusted: TrustedPeers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trusted = trusted or TrustedPeers()
        self._listener, self._port, self._limits, self._clock = listener, port, limits, clock
        self._open: dict[bytes, _Connection] = {}
        self._others: set[bytes] = set()  # what else this process has open
        self._highest = 0
        self._ended = threading.Event()
        self._warned_at, self._unsaid = float("-inf"), 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Looks a few times a second, in a thread: an event loop that is held up is when it is needed most."""
        if sys.platform != "linux":
            yield
            return
        thread = threading.Thread(target=self._run, name=f"{self._listener} connections", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def sweep(self) -> int:
        """Looks once and returns how many connections were closed."""
        now = self._clock()
        self._look(now)
        strangers = sorted(
            (each for each in self._open.values() if each.peer not in self.trusted), key=lambda each: each.since
        )
        OPEN.labels(self._listener).set(len(self._open))
        closed = self._close_excess(strangers, now)
        if closed:
            CLOSED.labels(self._listener).inc(closed)
            self._warn(closed, now)
        return closed

    def _run(self) -> None:
        pause = _SHORTEST_PAUSE
        while not self._ended.wait(pause):
            began = time.monotonic()
            try:
                self.sweep()
            except Exception:
                log.exception("connections.sweep_failed", listener=self._listener)
            pause = self._pause(time.monotonic() - began)

    def _pause(self, took: float) -> float:
        """Seconds until the next look: soon when there is much to see, but looking is a small part of the time."""
        if len(self._open) <= self._limits.anonymous // 2:
            return _LONGEST_PAUSE
        is_filling = len(self._open) > self._limits.places // 2
        return min(max(took / (_SHARE_WHEN_FULL if is_filling else _SHARE_OF_TIME), _SHORTEST_PAUSE), _LONGEST_PAUSE)

    def _look(self, now: float) -> None:
        found: dict[bytes, _Connection] = {}
        others: set[bytes] = set()
        for descriptor, identity in _descriptors(self._highest):
            self._highest = max(self._highest, descriptor)
            known = self._open.get(identity)
            if known is not None:
                found[identity] = known
            elif identity in self._others or (peer := self._peer(descriptor)) is None:
                others.add(identity)
            elif _identity(descriptor) == identity:
                found[identity] = _Connection(identity, descriptor, peer, now)
        gone = [each.peer for identity, each in self._open.items() if identity not in found]
        self._open, self._others = found, others
        self.trusted.forget(gone, before=now)

    def _peer(self, descriptor: int) -> Peer | None:
        """The other end of a connection of our port; None for anything else."""
        own = _address(_LIBC.getsockname, descriptor)
        if own is None or own[1] != self._port:
            return None
        peer = _address(_LIBC.getpeername, descriptor)
        if peer is None:
            _bound_unread_answers(descriptor)
        return peer

    def _close_excess(self, strangers: list[_Connection], now: float) -> int:
        """Oldest first; those that send a body, or have only just sent something, are spared while there are others."""
        old = now - _GRACE_SECONDS
        if len(self._open) <= self._limits.places * 3 // 4:
            strangers_may_go = [each for each in strangers if each.since <= old]
        else:
            strangers_may_go = strangers
        excess = len(strangers) - self._limits.anonymous
        by_address = self._excess_by_address(strangers)
        left_by_address = sum(by_address.values())
        closed, spared = 0, []
        for each in strangers_may_go:
            if excess <= closed and not left_by_address:
                break
            of_address = by_address[each.peer[0]] > 0
            if excess <= closed and not of_address:
                continue
            if _close(each, spared_from=_BODY_BYTES if each.since <= old else 1):
                closed += 1
                by_address[each.peer[0]] -= of_address
                left_by_address -= of_address
            else:
                spared.append(each)
        return closed + sum(_close(each) for each in spared[: max(0, excess - closed)])

    def _excess_by_address(self, strangers: list[_Connection]) -> Counter[str]:
        counts = Counter(each.peer[0] for each in strangers)
        limit = self._limits.per_address
        return Counter(
            {host: count - limit for host, count in counts.items() if count > limit and not self._is_exempt(host)}
        )

    def _is_exempt(self, host: str) -> bool:
        address = ip_address(host.partition("%")[0])
        return any(address in network for network in self._limits.exempt)

    def _warn(self, closed: int, now: float) -> None:
        self._unsaid += closed
        if now - self._warned_at >= _SECONDS_BETWEEN_WARNINGS:
            log.warning("connections.closed", listener=self._listener, closed=self._unsaid, open=len(self._open))
            self._warned_at, self._unsaid = now, 0


def peer_of_grpc(text: str) -> Peer | None:
    """Reads what gRPC calls a peer, such as `ipv4:10.0.0.1:5123` or `ipv6:%5B::1%5D:5123`."""
    family, _, rest = text.partition(":")
    host, _, port = rest.rpartition(":")
    if family not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return _plain(host.removeprefix("%5B").removesuffix("%5D").strip("[]")), int(port)


def _plain(host: str) -> str:
    """An IPv4 address as such, also where a socket of IPv6 has taken it."""
    return host.removeprefix("::ffff:") if host.startswith("::ffff:") and "." in host else host


def _descriptors(highest: int) -> Iterator[tuple[int, bytes]]:
    """The open descriptors with their identities.

    The system gives the lowest number that is free: beyond the highest that was ever seen, a long gap is the end.
    """
    missing = descriptor = 0
    while descriptor <= highest or missing < _GAP:
        identity = _identity(descriptor)
        if identity is None:
            missing += 1
        else:
            missing = 0
            yield descriptor, identity
        descriptor += 1


def _identity(descriptor: int) -> bytes | None:
    """Device and number of what is open under a descriptor; None when nothing is."""
    buffer = _ANSWERS.buffer
    return buffer.raw[:_IDENTITY] if _LIBC.fstat(descriptor, buffer) == 0 else None


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
        return _plain(socket.inet_ntop(socket.AF_INET6, raw[8:24])), port
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


def _close(connection: _Connection, *, spared_from: int | None = None) -> bool:
    """False when it was gone already, or has sent `spared_from` bytes."""
    try:
        with _duplicate(connection.descriptor) as ours:
            if _identity(ours.fileno()) != connection.identity:
                return False
            if spared_from is not None and _bytes_received(ours) >= spared_from:
                return False
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)  # leaves nothing behind in the system
            ours.shutdown(socket.SHUT_RDWR)
    except OSError:
        return False
    return True


def _bytes_received(ours: socket.socket) -> int:
    found = ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.size)
    return int(_BYTES_RECEIVED.unpack(found)[0]) if len(found) == _BYTES_RECEIVED.size else 0
