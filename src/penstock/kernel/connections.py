"""Limits the connections of one port, from inside the process that listens on it.

The servers accept in Rust and in C, where no hook of ours runs, and `penstock up` has no proxy in front. So a thread
looks at the process's own sockets a few times a second. A connection is anonymous until a signed-in request has come
over it: an edge then says so to `trusted`, as soon as it knows and before it reads the body.

Which anonymous ones are closed: beyond the limit of one address the oldest of that address, beyond the limit of the
port the oldest of all, but none that is younger than `_GRACE_SECONDS`: a client that means it has sent its request long
before that. When the places of the port run short, age does not count either. A connection that is sending a body of
some size is taken only when the others are not enough, and never to make room for those that still have their grace.
Nobody is turned away at the door, so the newest caller always gets in, also where callers and attackers share an
address.

Trusted connections do not count against these limits. When places run short all the same, whoever has most of them
loses idle ones. One over which a checked request is under way is never closed here.

Only Linux tells of the sockets: elsewhere nothing is limited here.
"""

import contextlib
import heapq
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

import prometheus_client
import structlog

from penstock.kernel.open_sockets import Connection, close, descriptors, identity, peer_on
from penstock.kernel.runtime import RuntimeSettings
from penstock.kernel.trusted_peers import TrustedPeers

log = structlog.get_logger(__name__)
Networks = tuple[IPv4Network | IPv6Network, ...]

OPEN = prometheus_client.Gauge(
    "penstock_connections", "Open connections by listener", ["listener"], multiprocess_mode="livesum"
)
CLOSED = prometheus_client.Counter(
    "penstock_connections_closed_total", "Connections that were closed to make room", ["listener"]
)

_GRACE_SECONDS = 1.0
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.1, 0.5  # seconds between two looks
_SHARE_OF_TIME, _SHARE_WHEN_FULL = 0.1, 0.25  # that looking takes at the most
_SECONDS_BETWEEN_WARNINGS = 10.0
_BODY_BYTES = 64 << 10  # who has sent so much sends a body, and is closed last
_DESCRIPTORS_KEPT = 1024  # for files, databases and the like


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many anonymous connections a port and one address may have; `places` is what the server takes in all."""

    anonymous: int
    per_address: int
    places: int
    exempt: Networks = ()  # from the limit per address

    @property
    def comfortable(self) -> int:
        """Beyond so many connections the places run short."""
        return self.places * 3 // 4

    def is_exempt(self, host: str) -> bool:
        address = ip_address(host.partition("%")[0])
        return any(address in network for network in self.exempt)


class _Excess:
    """How many of some anonymous connections are too many: in all, and of each address."""

    def __init__(self, counted: list[Connection], limits: ConnectionLimits) -> None:
        most = limits.per_address
        counts = Counter(each.peer[0] for each in counted)
        self._left = len(counted) - limits.anonymous
        self._of_address = Counter(
            {host: count - most for host, count in counts.items() if count > most and not limits.is_exempt(host)}
        )

    def is_over(self) -> bool:
        return self._left <= 0 and not self._of_address

    def has(self, each: Connection, *, of_address: bool = False) -> bool:
        """Whether it is one of those, or of those of its address."""
        return each.peer[0] in self._of_address or (self._left > 0 and not of_address)

    def subtract(self, each: Connection) -> None:
        self._left -= 1
        host = each.peer[0]
        if host in self._of_address:
            self._of_address[host] -= 1
            if not self._of_address[host]:
                del self._of_address[host]


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
    """Closes connections of `port` that are too many. `listener` names the port in logs and metrics."""

    def __init__(
        self,
        listener: str,
        port: int,
        limits: ConnectionLimits,
        *,
        trusted: TrustedPeers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.trusted = TrustedPeers() if trusted is None else trusted
        self._listener, self._port, self._limits, self._clock = listener, port, limits, clock
        self._open: dict[bytes, Connection] = {}
        self._others: set[bytes] = set()  # what else this process has open
        self._highest = 0
        self._looked_at = float("-inf")
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
        closed += self._close_idle(len(self._open) - closed - self._limits.comfortable)
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
        found: dict[bytes, Connection] = {}
        others: set[bytes] = set()
        highest = 0
        for descriptor, number in descriptors(self._highest):
            highest = descriptor
            known = self._open.get(number)
            if known is not None:
                found[number] = known
            elif number in self._others or (peer := peer_on(self._port, descriptor)) is None:
                others.add(number)
            elif identity(descriptor) == number:
                found[number] = Connection(number, descriptor, peer, now)
        new = {each.peer for number, each in found.items() if number not in self._open}
        self._open, self._others, self._highest = found, others, highest
        self.trusted.keep_only({each.peer for each in found.values()}, new=new, looked=(self._looked_at, now))
        self._looked_at = now

    def _close_excess(self, strangers: list[Connection], now: float) -> int:
        """Oldest first; those that send a body, or have only just sent something, are spared while there are others."""
        old = now - _GRACE_SECONDS
        is_short = len(self._open) > self._limits.comfortable
        may_go = strangers if is_short else [each for each in strangers if each.since <= old]
        excess, excess_of_these = _Excess(strangers, self._limits), _Excess(may_go, self._limits)
        closed, spared = 0, []
        for each in may_go:
            if excess.is_over():
                break
            if not excess.has(each):
                continue
            if self._close(each, spared_from=_BODY_BYTES if each.since <= old else 1):
                closed += 1
                excess.subtract(each)
                excess_of_these.subtract(each)
            else:
                spared.append(each)
        spared.sort(key=lambda each: each.since <= old)  # who still has its grace goes first
        return closed + self._close_spared(spared, excess_of_these)

    def _close_spared(self, spared: list[Connection], excess: _Excess) -> int:
        """First of addresses that have too many."""
        closed = 0
        for of_address in (True, False):
            for each in spared:
                if excess.has(each, of_address=of_address) and self._close(each):
                    closed += 1
                    excess.subtract(each)
        return closed

    def _close(self, stranger: Connection, *, spared_from: int | None = None) -> bool:
        """False for one that has signed in since we looked, too."""
        return stranger.peer not in self.trusted and close(stranger, spared_from=spared_from)

    def _close_idle(self, excess: int) -> int:
        """Who has most of the trusted connections loses idle ones first, the longest unused before the others."""
        if excess <= 0:
            return 0
        counts: Counter[str] = Counter()
        idle: dict[str, list[tuple[float, int, Connection]]] = {}
        for each in self._open.values():
            if (known := self.trusted.get(each.peer)) is not None:
                counts[known.owner] += 1
                if not known.under_way:
                    idle.setdefault(known.owner, []).append((-known.since, each.descriptor, each))
        for candidates in idle.values():
            candidates.sort()
        return sum(close(each) for each in _of_the_largest(counts, idle, excess))

    def _warn(self, closed: int, now: float) -> None:
        self._unsaid += closed
        if now - self._warned_at >= _SECONDS_BETWEEN_WARNINGS:
            log.warning("connections.closed", listener=self._listener, closed=self._unsaid, open=len(self._open))
            self._warned_at, self._unsaid = now, 0


def _of_the_largest(
    counts: Counter[str], idle: dict[str, list[tuple[float, int, Connection]]], most: int
) -> Iterable[Connection]:
    """At most so many, each from the owner who has most connections left and an idle one among them."""
    owners = [(-counts[owner], owner) for owner in idle]
    heapq.heapify(owners)
    while owners and most > 0:
        count, owner = owners[0]
        yield idle[owner].pop()[2]
        most -= 1
        if idle[owner]:
            heapq.heapreplace(owners, (count + 1, owner))
        else:
            heapq.heappop(owners)
