"""A stretch of network between client and server that can be cut, stalled and mended on command."""

import contextlib
import itertools
import socket
import struct
import threading
import time
from typing import Self


class CuttingProxy:
    """Passes TCP on to a port of this machine, to several in turn. What clients send is counted, and can be stopped."""

    def __init__(self, *ports: int) -> None:
        self._upstream = itertools.cycle(ports)
        self._ports = len(ports)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self._guard = threading.Condition()
        self._open: set[socket.socket] = set()
        self._allowed: int | None = None
        self._then_cut = False
        self.passed = 0
        self.cuts = 0
        self.down = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.down = True
        self.mend()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self.cut()

    def cut_after(self, number: int) -> None:
        """Once clients have sent so many more bytes, every connection is reset."""
        with self._guard:
            self._allowed, self._then_cut = self.passed + number, True

    def stall_after(self, number: int) -> None:
        """Once clients have sent so many more bytes, nothing moves until `mend` or `cut`."""
        with self._guard:
            self._allowed, self._then_cut = self.passed + number, False

    def mend(self) -> None:
        with self._guard:
            self._allowed = None
            self._guard.notify_all()

    def cut(self) -> None:
        """Reset every connection there is."""
        with self._guard:
            gone, self._open = self._open, set()
            self.cuts += bool(gone)
            self._guard.notify_all()
        for one in gone:
            _reset(one)

    def until_stopped(self, seconds: float = 15) -> None:
        """Wait until the byte of `cut_after` or `stall_after` was reached."""
        deadline = time.monotonic() + seconds
        with self._guard:
            while self._allowed is not None and self.passed < self._allowed:
                if not self._guard.wait(deadline - time.monotonic()):
                    raise AssertionError(f"only {self.passed} bytes came within {seconds:.0f} s")

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.down:
                _reset(client)
                continue
            server = self._reach_one()
            if server is None:
                _reset(client)
                continue
            with self._guard:
                self._open |= {client, server}
            threading.Thread(target=self._pump, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, False), daemon=True).start()

    def _reach_one(self) -> socket.socket | None:
        """The next server that is up."""
        for _ in range(self._ports):
            try:
                server = socket.create_connection(("127.0.0.1", next(self._upstream)), timeout=5)
            except OSError:
                continue
            server.settimeout(None)
            return server
        return None

    def _pump(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(16384):
                while data:
                    number = self._may_pass(len(data), source) if counted else len(data)
                    if not number:
                        return
                    target.sendall(data[:number])
                    data = data[number:]
            target.shutdown(socket.SHUT_WR)
        except OSError:
            self._end(source, target)

    def _may_pass(self, wanted: int, source: socket.socket) -> int:
        """How many bytes may go now; waits while stalled, 0 when the connection was cut."""
        with self._guard:
            while self._allowed is not None and self.passed >= self._allowed:
                if self._then_cut:
                    break
                if source not in self._open:
                    return 0
                self._guard.wait(1)
            else:
                number = wanted if self._allowed is None else min(wanted, self._allowed - self.passed)
                self.passed += number
                self._guard.notify_all()
                return number
            self._allowed = None
        self.cut()
        return 0

    def _end(self, *sockets: socket.socket) -> None:
        with self._guard:
            self._open -= set(sockets)
        for one in sockets:
            _reset(one)


def _reset(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
