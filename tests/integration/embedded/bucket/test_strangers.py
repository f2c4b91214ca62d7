"""Clients without a signature hold up no phone that has one."""

import contextlib
import select
import socket
import time

import pytest
from tests.support.bucket import BucketThread, until

from penstock.embedded.bucket import app


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

    def test_an_upload_under_way_is_not_cut_off_for_them(self, guarded, name):
        """Also when they are new, and the phone has been sending for long."""
        session = guarded.begin(name)
        guarded.http.close()
        with guarded.trickle("PUT", session.removeprefix(guarded.address)) as phone:
            phone.sendall(b"11170\r\n" + bytes(0x11170) + b"\r\n")
            time.sleep(1.2)  # until a stranger would have had its time
            wires = [connect(guarded) for _ in range(30)]
            until(lambda: sum(map(is_open, wires)) <= 10, "room is made", seconds=5)
            phone.sendall(b"0\r\n\r\n")
            assert phone.recv(12) == b"HTTP/1.1 200"
        for wire in wires:
            wire.close()

    def test_http_2_is_not_spoken(self, guarded):
        with connect(guarded, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0") as wire:
            assert wire.recv(9) in (b"", b"HTTP/1.1 ")


class TestBodies:
    def test_of_too_many_without_a_right_the_oldest_are_read_no_further(self, bucket, name, monkeypatch):
        monkeypatch.setattr(app, "MOST_UNCHECKED", 3)
        head = b"POST /token HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"
        with contextlib.ExitStack() as ending:
            wires = [ending.enter_context(connect(bucket, head)) for _ in range(6)]
            told: list[socket.socket] = []
            while len(told) < 3:  # which of them came first is for the machine to say
                told += select.select([each for each in wires if each not in told], [], [], 5)[0] or pytest.fail("none")
            assert all(b" 503 " in wire.recv(100) for wire in told)
            read = bucket.http.post(f"{bucket.address}/token", data={"grant_type": "none"})
            assert (read.status_code, read.json()["error"]) == (400, "invalid_grant")
            assert bucket.send(name, b"a film").status_code == 200

    def test_one_that_cannot_be_read_is_a_mistake_of_its_sender(self, bucket, name):
        session = bucket.begin(name)
        for body in (b'3;a="\nb\r\nabc\r\n0\r\n\r\n', b"zz\r\nabc\r\n0\r\n\r\n"):
            with bucket.trickle("PUT", session.removeprefix(bucket.address)) as wire:
                wire.sendall(body)
                assert wire.recv(12) == b"HTTP/1.1 400"
        assert bucket.put(session, b"a film").status_code == 200


class TestAddresses:
    @pytest.mark.parametrize("line", [b"OPTIONS * HTTP/1.1", b"CONNECT elsewhere:443 HTTP/1.1"])
    def test_one_that_is_no_path_is_refused(self, bucket, line):
        with connect(bucket, line + b"\r\nHost: elsewhere:443\r\n\r\n") as wire:
            assert wire.recv(12) == b"HTTP/1.1 400"
