"""Remembers the connections over which a signed-in request has come, whose they are, and which are busy with one.

Event loops write here and the thread of a `ConnectionLimiter` reads. A connection is known by the address and port of
its other end. Both can come again with another connection, so trust ends when a look at the sockets finds no such
connection, or one that was not there when the trust was given.
"""

import threading
import time
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass

Peer = tuple[str, int]


@dataclass(slots=True)
class Trust:
    """What is known of one connection: when its latest signed-in request came, whose it was, how many are under way."""

    since: float
    owner: str
    under_way: int = 0


class TrustedPeers:
    """The trusted connections of one port."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[Peer, Trust] = {}
        self._writing = threading.Lock()

    def trust(self, host: str, port: int | str, owner: str = "") -> Trust:
        """From now on the connection is no stranger's. When places run short its owner counts: by default its host."""
        peer = plain(host), int(port)
        now, owner = self._clock(), owner or peer[0]
        with self._writing:
            known = self._known.setdefault(peer, Trust(now, owner))
            known.since, known.owner = now, owner
        return known

    @contextmanager
    def serving(self, host: str, port: int | str, owner: str = "") -> Iterator[None]:
        """Trusts the connection, which is busy with a request that was checked until the block ends."""
        known = self.trust(host, port, owner)
        known.under_way += 1
        try:
            yield
        finally:
            known.under_way -= 1

    def __contains__(self, peer: Peer) -> bool:
        return peer in self._known

    def get(self, peer: Peer) -> Trust | None:
        return self._known.get(peer)

    def keep_only(self, found: AbstractSet[Peer], *, new: AbstractSet[Peer], looked: tuple[float, float]) -> None:
        """Drops what was given before a look that did not find the connection, or found only a later one.

        `new` are peers that the latest look found and the one before did not; `looked` is when those two looks began.
        """
        before, latest = looked
        with self._writing:
            for peer, known in self._known.copy().items():
                is_stale = known.since < before if peer in new else peer not in found and known.since < latest
                if is_stale:
                    del self._known[peer]


def peer_of_grpc(text: str) -> Peer | None:
    """Reads what gRPC calls a peer, such as `ipv4:10.0.0.1:5123` or `ipv6:%5B::1%5D:5123`."""
    family, _, rest = text.partition(":")
    host, _, port = rest.rpartition(":")
    if family not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    return plain(host.removeprefix("%5B").removesuffix("%5D").strip("[]")), int(port)


def plain(host: str) -> str:
    """An IPv4 address as such, also where a socket of IPv6 has taken it."""
    return host.removeprefix("::ffff:") if host.startswith("::ffff:") and "." in host else host
