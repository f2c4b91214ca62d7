"""A client without a token that keeps many connections to one port of this machine: `python -m tests.chaos.strangers`.

Each connection speaks as its kind says; one that the server closes is opened again, at a bounded rate. Written with
plain sockets, so that thousands cost little, and with the lowest priority, so that it measures the server and not
itself.
"""

import argparse
import contextlib
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS = b"\0\0\0\4\0\0\0\0\0"
_PIECE = b"a" * 4096


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack("!I", len(payload))[1:] + bytes((kind, flags)) + struct.pack("!I", stream) + payload


def _header_block(number: int) -> bytes:
    """Headers of HTTP/2 that end no header block: 1 KB of literals each."""
    name = f"x-{number}".encode()
    return b"\x00" + bytes((len(name),)) + name + b"\x7f" + b"\x81\x07" + b"a" * 1024


@dataclass(frozen=True)
class Kind:
    """What a connection says first, what it goes on to say, how often, and whether it reads."""

    first: bytes = b""
    more: bytes = b""
    seconds: float = 1.0
    reads: bool = True


_POST = b" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
KINDS = {
    "idle": Kind(),
    "slow headers": Kind(b"GET / HTTP/1.1\r\n", b"x-slow: 1\r\n", 2.0),
    "endless headers": Kind(b"GET / HTTP/1.1\r\n", b"x-long: " + _PIECE + b"\r\n", 0.5),
    "slow bodies": Kind(b"POST /api/v1/session" + _POST, b"1\r\n \r\n", 2.0),
    "endless bodies": Kind(b"POST /api/v1/jobs" + _POST, b"1000\r\n" + _PIECE + b"\r\n", 0.2),
    "slow tokens": Kind(b"POST /token" + _POST, b"1\r\na\r\n", 2.0),
    "unread answers": Kind(b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: a\r\n\r\n", b"", 5.0, reads=False),
    "HTTP/2 headers": Kind(
        _PREFACE + _SETTINGS + _frame(1, 0, 1, b"\x82\x84\x86"), _frame(9, 0, 1, _header_block(1) * 8), 0.1
    ),
    "HTTP/2 idle": Kind(_PREFACE + _SETTINGS),
}


@dataclass
class Crowd:
    """The connections of one process."""

    address: tuple[str, int]
    kind: Kind
    wanted: int
    sources: int
    per_second: float
    opened: int = 0
    closed: int = 0
    refused: int = 0
    ours: dict[socket.socket, float] = field(default_factory=dict)
    waiting: "selectors.BaseSelector" = field(default_factory=selectors.DefaultSelector)

    def run(self, seconds: float) -> None:
        end, allowed, last = time.monotonic() + seconds, float(self.wanted), time.monotonic()
        while (now := time.monotonic()) < end:
            allowed = min(self.wanted, allowed + (now - last) * self.per_second)
            last = now
            for _ in range(min(int(allowed), self.wanted - len(self.ours), 500)):
                self._open(now)
                allowed -= 1
            for key, _ in self.waiting.select(0.01):
                self._hear(key.fileobj)
            if self.kind.more:
                self._go_on(now)

    def _open(self, now: float) -> None:
        made = socket.socket()
        made.setblocking(False)
        if not self.kind.reads:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with contextlib.suppress(BlockingIOError):
            try:
                if self.sources:
                    made.bind((f"127.0.{1 + self.opened // 200 % 200}.{1 + self.opened % self.sources}", 0))
                made.connect(self.address)
            except OSError as failure:
                if isinstance(failure, BlockingIOError):
                    raise
                self.refused += 1
                made.close()
                return
        self.opened += 1
        self.ours[made] = now
        self.waiting.register(made, selectors.EVENT_WRITE)

    def _hear(self, one: object) -> None:
        assert isinstance(one, socket.socket)
        try:
            if self.waiting.get_key(one).events == selectors.EVENT_WRITE:  # it is connected, or never will be
                if self.kind.first:
                    one.send(self.kind.first)
                self.waiting.unregister(one)
                if self.kind.reads:
                    self.waiting.register(one, selectors.EVENT_READ)
                return
            if one.recv(65536):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._drop(one)

    def _go_on(self, now: float) -> None:
        for one in [one for one, said in self.ours.items() if now - said >= self.kind.seconds]:
            self.ours[one] = now
            try:
                one.send(self.kind.more)
            except BlockingIOError:
                pass
            except OSError:
                self._drop(one)

    def _drop(self, one: socket.socket) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self.waiting.unregister(one)
        self.ours.pop(one, None)
        one.close()
        self.closed += 1


def _arguments() -> Iterator[argparse.Namespace]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--again", type=float, default=100, help="connections opened again in a second at the most")
    parser.add_argument("--sources", type=int, default=0, help="addresses 127.0.x.y to come from; 0: one")
    yield parser.parse_args()


def main() -> int:
    [given] = _arguments()
    os.nice(19)
    crowd = Crowd(("127.0.0.1", given.port), KINDS[given.kind], given.connections, given.sources, given.again)
    crowd.run(given.seconds)
    left = len(crowd.ours)
    print(f"opened={crowd.opened} closed={crowd.closed} refused={crowd.refused} left={left}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
