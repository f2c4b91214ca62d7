"""Clients without a signature hold up no phone that has one."""

import socket
import time

import pytest
from tests.support.bucket import BucketThread, until


@pytest.fixture
def guarded(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_ANONYMOUS_CONNECTIONS", "10")
    with BucketThread(tmp_path) as made:
        yield made


def connect(bucket: BucketThread, says: bytes = b"") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", int(bucket.address.rpartition(":")[2])), timeout=5)
    made.sendall(says)
    return made


def is_open(wire: socket.socket) -> bool:
    wire.settimeout(0)
    try:
        return wire.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


class TestConnections:
    def test_silent_ones_make_room_and_a_phone_keeps_its_own(self, guarded, name):
        session = guarded.begin(name)
        [kept] = guarded.http._transport._pool.connections
        wires = [connect(guarded) for _ in range(200)]
        began = time.monotonic()
        until(lambda: sum(map(is_open, wires)) <= 10, "room is made", seconds=5)
        assert time.monotonic() - began < 9  # sooner than the time limit on headers
        assert guarded.put(session, b"a film").status_code == 200
        assert guarded.http._transport._pool.connections == [kept]
        for wire in wires:
            wire.close()

    def test_http_2_is_not_spoken(self, guarded):
        with connect(guarded, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0") as wire:
            assert wire.recv(9) in (b"", b"HTTP/1.1 ")
