"""The limits on connections of a port, on real sockets of this process."""

import contextlib
import socket
import struct
from collections.abc import Iterator

import pytest

from penstock.kernel import connections
from penstock.kernel.connections import ConnectionLimiter, ConnectionLimits, networks
from penstock.kernel.open_sockets import descriptors
from penstock.kernel.trusted_peers import TrustedPeers, peer_of_grpc


class Port:
    """A listening port, its clients and the connections that it has accepted."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.number = self.listener.getsockname()[1]
        self.now = 100.0
        self.accepted: list[socket.socket] = []
        self.clients: list[socket.socket] = []

    def limiter(self, anonymous: int = 1000, per_address: int = 1000, places: int = 1000, exempt: str = ""):
        limits = ConnectionLimits(anonymous, per_address, places, networks(exempt))
        trusted = TrustedPeers(clock=lambda: self.now)
        return ConnectionLimiter("test", self.number, limits, trusted=trusted, clock=lambda: self.now)

    def connect(self, source: str = "127.0.0.1", source_port: int = 0, says: bytes = b"") -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.number), source_address=(source, source_port))
        client.sendall(says)
        self.clients.append(client)
        self.accepted.append(self.listener.accept()[0])
        return client

    def close(self) -> None:
        for one in (self.listener, *self.accepted, *self.clients):
            one.close()


@pytest.fixture
def port() -> Iterator[Port]:
    made = Port()
    yield made
    made.close()


def is_open(client: socket.socket) -> bool:
    client.settimeout(0)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def end_at_once(client: socket.socket) -> None:
    """With a reset, so that its port is free again."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


class TestThePort:
    def test_the_oldest_anonymous_connections_go_first(self, port: Port):
        limiter, clients = port.limiter(anonymous=2), []
        for _ in range(4):
            clients.append(port.connect())
            limiter.sweep()
            port.now += 1.5
        limiter.sweep()
        assert [is_open(one) for one in clients] == [False, False, True, True]

    def test_a_connection_has_a_moment_to_send_its_request(self, port: Port):
        limiter = port.limiter(anonymous=1)
        clients = [port.connect() for _ in range(3)]
        assert limiter.sweep() == 0
        port.now += 1.5
        assert limiter.sweep() == 2
        assert sum(map(is_open, clients)) == 1

    def test_when_places_run_out_age_does_not_count_but_silence_does(self, port: Port):
        limiter = port.limiter(anonymous=2, places=4)
        clients = [port.connect(), port.connect(says=b"GET"), port.connect(says=b"GET"), port.connect()]
        assert limiter.sweep() == 2
        assert [is_open(one) for one in clients] == [False, True, True, False]

    def test_a_signed_in_connection_stays_and_does_not_count(self, port: Port):
        limiter = port.limiter(anonymous=1)
        clients = [port.connect() for _ in range(3)]
        for one in clients[:2]:
            limiter.trusted.trust(*one.getsockname())
        limiter.sweep()
        port.now += 60
        assert limiter.sweep() == 0
        assert all(map(is_open, clients))

    def test_one_that_sends_a_body_goes_last(self, port: Port):
        limiter = port.limiter(anonymous=1)
        clients = [port.connect(says=b"x" * 70_000), port.connect(), port.connect()]
        limiter.sweep()
        port.now += 1.5
        limiter.sweep()
        assert [is_open(one) for one in clients] == [True, False, False]

    def test_one_that_sends_a_body_makes_no_room_for_those_in_their_first_moment(self, port: Port):
        limiter = port.limiter(anonymous=3)
        sending = port.connect(says=b"x" * 70_000)
        limiter.sweep()
        port.now += 1.5
        crowd = [port.connect() for _ in range(8)]
        assert limiter.sweep() == 0
        port.now += 1.5
        limiter.sweep()
        assert is_open(sending)
        assert sum(map(is_open, crowd)) == 2

    def test_other_sockets_of_the_process_are_left_alone(self, port: Port):
        other, limiter = Port(), port.limiter(anonymous=1)
        clients = [other.connect() for _ in range(3)]
        limiter.sweep()
        port.now += 1.5
        assert limiter.sweep() == 0
        assert all(map(is_open, clients))
        other.close()

    def test_an_answer_that_nobody_reads_costs_little_and_ends_by_itself(self, port: Port):
        port.limiter().sweep()
        port.connect()
        server = port.accepted[0]
        server.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < 64 << 20:
                sent += server.send(bytes(64 << 10))
        unread_by_client = port.clients[0].getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        assert sent < unread_by_client + (256 << 10)
        assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000


class TestLooking:
    def test_it_goes_no_further_than_the_open_descriptors(self, port: Port, monkeypatch):
        limiter, looked = port.limiter(), []
        monkeypatch.setattr(connections, "descriptors", lambda upto: (looked.append(upto), descriptors(upto))[1])
        for _ in range(200):
            port.connect()
        limiter.sweep()
        for one in (*port.clients, *port.accepted):
            one.close()
        limiter.sweep()
        limiter.sweep()
        assert looked[1] - looked[2] >= 100


class TestOneAddress:
    def test_it_may_not_take_what_belongs_to_others(self, port: Port):
        limiter = port.limiter(per_address=1)
        greedy = [port.connect("127.0.0.7") for _ in range(3)]
        others = [port.connect("127.0.0.8"), port.connect("127.0.0.9")]
        limiter.sweep()
        port.now += 1.5
        assert limiter.sweep() == 2
        assert sum(map(is_open, greedy)) == 1
        assert all(map(is_open, others))

    def test_sending_bodies_is_no_way_around_it(self, port: Port):
        limiter = port.limiter(per_address=1)
        greedy = [port.connect("127.0.0.7", says=b"x" * 70_000) for _ in range(3)]
        other = port.connect("127.0.0.8", says=b"x" * 70_000)
        limiter.sweep()
        port.now += 1.5
        assert limiter.sweep() == 2
        assert sum(map(is_open, greedy)) == 1
        assert is_open(other)

    def test_the_bodies_of_the_one_that_has_too_many_go_first(self, port: Port):
        limiter = port.limiter(anonymous=3, per_address=2)
        first = port.connect("127.0.0.8", says=b"x" * 70_000)
        for _ in range(3):
            port.connect("127.0.0.7", says=b"x" * 70_000)
        limiter.sweep()
        port.now += 1.5
        assert limiter.sweep() == 1
        assert is_open(first)

    def test_a_proxy_stands_for_many(self, port: Port):
        limiter = port.limiter(per_address=1, exempt="10.0.0.1, 127.0.0.0/29")
        clients = [port.connect("127.0.0.7") for _ in range(3)]
        limiter.sweep()
        port.now += 1.5
        assert limiter.sweep() == 0
        assert all(map(is_open, clients))


class TestPlacesOfSignedInCallers:
    def test_who_has_most_connections_loses_idle_ones_when_places_run_short(self, port: Port):
        limiter = port.limiter(places=8)
        greedy, other = [port.connect() for _ in range(6)], [port.connect() for _ in range(2)]
        for one in greedy:
            limiter.trusted.trust(*one.getsockname(), "m-greedy")
            port.now += 0.1
        for one in other:
            limiter.trusted.trust(*one.getsockname(), "m-other")
        assert limiter.sweep() == 2
        assert [is_open(one) for one in greedy] == [False, False, True, True, True, True]
        assert all(map(is_open, other))

    def test_none_is_closed_while_a_checked_request_is_under_way(self, port: Port):
        limiter = port.limiter(places=4, anonymous=1)
        clients = [port.connect() for _ in range(4)]
        with contextlib.ExitStack() as requests:
            for one in clients:
                requests.enter_context(limiter.trusted.serving(*one.getsockname(), "m-1"))
            port.now += 60
            assert limiter.sweep() == 0
        assert limiter.sweep() == 1


class TestTrust:
    def test_it_ends_with_the_connection(self, port: Port):
        limiter = port.limiter()
        client = port.connect()
        peer = client.getsockname()
        limiter.trusted.trust(*peer)
        limiter.sweep()
        assert peer in limiter.trusted
        port.accepted[0].close()
        port.now = float("inf")
        limiter.sweep()
        assert peer not in limiter.trusted

    def test_it_ends_also_when_no_look_has_seen_the_connection(self, port: Port):
        limiter = port.limiter()
        client = port.connect()
        peer = client.getsockname()
        limiter.trusted.trust(*peer)
        client.close()
        port.accepted[0].close()
        port.now += 1
        limiter.sweep()
        assert peer not in limiter.trusted

    def test_it_is_not_for_a_later_connection_from_the_same_port(self, port: Port):
        limiter = port.limiter()
        client = port.connect()
        peer = client.getsockname()
        limiter.sweep()
        limiter.trusted.trust(*peer)
        port.now += 1
        limiter.sweep()
        assert peer in limiter.trusted
        end_at_once(client)
        port.accepted[0].close()
        port.connect(*peer)
        port.now += 1
        limiter.sweep()
        assert peer not in limiter.trusted

    def test_a_new_connection_from_the_same_port_that_signs_in_has_it(self, port: Port):
        limiter = port.limiter()
        client = port.connect()
        peer = client.getsockname()
        limiter.trusted.trust(*peer)
        port.now += 1
        limiter.sweep()
        end_at_once(client)
        port.accepted[0].close()
        port.connect(*peer)
        port.now += 0.1
        limiter.trusted.trust(*peer)
        port.now += 0.1
        limiter.sweep()
        assert peer in limiter.trusted

    def test_an_address_of_ipv4_is_one_whichever_way_it_is_written(self):
        trusted = TrustedPeers()
        trusted.trust("::ffff:10.0.0.1", "5123")
        assert ("10.0.0.1", 5123) in trusted

    @pytest.mark.parametrize(
        ("text", "peer"),
        [
            ("ipv4:10.0.0.1:5123", ("10.0.0.1", 5123)),
            ("ipv6:%5B::1%5D:5123", ("::1", 5123)),
            ("ipv6:[::ffff:10.0.0.1]:5123", ("10.0.0.1", 5123)),
            ("unix:/tmp/socket", None),
        ],
    )
    def test_what_grpc_calls_a_peer_is_read(self, text, peer):
        assert peer_of_grpc(text) == peer
