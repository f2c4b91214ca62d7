"""Two who write to one upload: one at a time, the stalled one gives way, and nothing lands at a wrong offset."""

import contextlib
import http.client
import threading
import time
from typing import Self

import pytest
from tests.support.gateway import Gateway, running_gateway
from tests.support.tus import CHUNK, Answer, Tus, Wire, checksum

from penstock.embedded import EmbeddedPostgres, EmbeddedRedis

HALF = b"x" * 70_000
LENGTH = 2 * len(HALF)
SOON = 2.0  # aimed at: under 0.2 s; the rest is for a busy machine


class Dribble:
    """A writer that is slow but alive: a few bytes every few milliseconds."""

    def __init__(self, wire: Wire, pieces: int = 2000) -> None:
        self._stop = threading.Event()
        self._wire = wire
        self._thread = threading.Thread(target=self._go_on)
        self.pieces = pieces
        self.sent = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _go_on(self) -> None:
        with contextlib.suppress(OSError):
            while self.sent < self.pieces and not self._stop.wait(0.005):
                self._wire.send(b"x")
                self.sent += 1


class TestAnActiveWriter:
    def test_a_second_one_is_told_to_come_back(self, tus: Tus, gateway: Gateway):
        path = tus.created(LENGTH)
        with tus.hold(path, LENGTH) as wire, Dribble(wire):
            answer = tus.patch(path, 0, HALF)
            assert answer.refusal == (423, "UPLOAD_LOCKED")
            assert int(answer["Retry-After"] or 0) >= 1

    def test_it_may_finish(self, tus: Tus, gateway: Gateway):
        path = tus.created(300)
        with tus.hold(path, 300) as wire:
            with Dribble(wire, pieces=100) as slow:
                assert tus.patch(path, 0, b"y" * 300).status == 423
            wire.send(b"x" * (300 - slow.sent))
            assert wire.answer().offset == 300
        assert gateway.bytes_of(path) == b"x" * 300

    def test_its_progress_can_be_asked_for(self, tus: Tus, gateway: Gateway):
        path = tus.created(LENGTH)
        with tus.hold(path, LENGTH) as wire, Dribble(wire):
            answer = tus.head(path)
            assert answer.status in (200, 204, 423)
            assert answer.status == 423 or answer.offset <= LENGTH

    def test_a_trickle_is_counted_too_and_shows_that_it_lives(self, tus: Tus, gateway: Gateway):
        path = tus.created(LENGTH)
        with tus.hold(path, LENGTH) as wire, Dribble(wire, pieces=LENGTH - 1):
            assert tus.patch(path, 0, HALF).status == 423
            assert gateway.row(path)["leased_until"] is not None, "nobody suspects it"
            deadline = time.monotonic() + 30
            while gateway.row(path)["received"] == 0:
                assert time.monotonic() < deadline, "it is not counted while it goes on"
                time.sleep(0.1)
            assert gateway.row(path)["leased_until"] is None

    def test_of_many_at_once_one_writes_and_nothing_is_mixed(self, tus: Tus, gateway: Gateway):
        path = tus.created(LENGTH)
        bodies = [bytes([65 + number]) * LENGTH for number in range(6)]
        answers: list[Answer] = []
        threads = [
            threading.Thread(target=lambda body=body: answers.append(tus.patch(path, 0, body))) for body in bodies
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(answer.status for answer in answers).count(204) == 1
        assert {answer.status for answer in answers} <= {204, 409, 423}
        assert gateway.bytes_of(path) in bodies


class TestAStalledWriter:
    @pytest.fixture
    def stalled(self, tus: Tus, gateway: Gateway):
        """An upload whose writer has sent a half and then nothing more."""
        path = tus.created(LENGTH)
        with tus.hold(path, LENGTH, HALF) as wire:
            yield path, wire

    def test_a_head_takes_over_and_finds_what_arrived(self, tus: Tus, gateway: Gateway, stalled):
        path, _ = stalled
        time.sleep(0.2)  # this is what stalling is
        asked = time.monotonic()
        answer = tus.head(path)
        assert time.monotonic() - asked < SOON
        assert answer.offset == len(HALF)
        assert gateway.bytes_of(path) == HALF

    def test_so_does_a_patch_that_knows_the_offset(self, tus: Tus, gateway: Gateway, stalled):
        path, _ = stalled
        time.sleep(0.2)  # as above
        asked = time.monotonic()
        answer = tus.patch(path, len(HALF), b"y" * len(HALF))
        assert time.monotonic() - asked < SOON
        assert (answer.status, answer.offset) == (204, LENGTH)
        assert gateway.bytes_of(path) == HALF + b"y" * len(HALF)

    def test_it_may_go_on_while_nobody_else_writes(self, tus: Tus, gateway: Gateway, stalled):
        path, old = stalled
        time.sleep(0.2)  # as above
        assert tus.head(path).offset == len(HALF)
        old.send(b"z" * len(HALF))
        assert old.answer().offset == LENGTH
        assert gateway.bytes_of(path) == HALF + b"z" * len(HALF)

    def test_once_another_wrote_its_late_bytes_do_not_count(self, tus: Tus, gateway: Gateway, stalled):
        path, old = stalled
        time.sleep(0.2)  # as above
        assert tus.patch(path, len(HALF), b"y" * 1000).status == 204
        with contextlib.suppress(OSError):  # it may have been shown the door already
            old.send(b"z" * len(HALF))
        assert _refused(old)
        assert tus.head(path).offset == len(HALF) + 1000
        assert tus.patch(path, len(HALF) + 1000, b"y" * (len(HALF) - 1000)).status == 204
        assert gateway.bytes_of(path) == HALF + b"y" * len(HALF)

    def test_with_a_checksum_its_bytes_do_not_count(self, tus: Tus, gateway: Gateway):
        path = tus.created(LENGTH)
        with tus.hold(path, LENGTH, HALF, upload_checksum=checksum(b"y" * LENGTH)) as wire:
            time.sleep(0.2)  # as above
            assert tus.head(path).offset == 0
            assert tus.patch(path, 0, b"y" * LENGTH).status == 204
            wire.drop()
        assert gateway.bytes_of(path) == b"y" * LENGTH

    def test_a_length_that_is_declared_in_a_refused_request_does_not_bind_it(self, tus: Tus, gateway: Gateway):
        path = tus.created()
        with tus.hold(path, LENGTH, HALF) as wire:
            time.sleep(0.2)  # as above
            answer = tus.patch(path, len(HALF), b"y" * 50, upload_length=str(len(HALF) + 20))
            assert answer.refusal == (413, "UPLOAD_LENGTH_EXCEEDED")
            wire.send(HALF)
            assert wire.answer().offset == LENGTH
        assert gateway.row(path)["length"] is None

    def test_a_delete_ends_it(self, tus: Tus, gateway: Gateway, stalled):
        path, old = stalled
        time.sleep(0.2)  # as above
        assert tus.delete(path).status == 204
        with contextlib.suppress(OSError):
            old.send(b"z" * len(HALF))
        assert _refused(old)
        assert tus.head(path).status == 410
        assert gateway.file_of(path) is None


class TestALastRequestRepeatedWithoutAnEnd:
    """Its body is announced in pieces, and none ever comes."""

    @pytest.fixture
    def gateway(self, postgres: EmbeddedPostgres, redis_server: EmbeddedRedis):
        with running_gateway(postgres, redis_server, GW_TUS_CHUNK_TIMEOUT_SEC="1") as made:
            yield made

    def test_it_holds_nobody_up_and_is_ended(self, gateway: Gateway):
        tus = gateway.caller()
        path = tus.uploaded(b"abc")
        endless = {"Upload-Offset": "3", "Content-Type": CHUNK, "Transfer-Encoding": "chunked"}
        with tus.wire() as wire:
            wire.send_head("PATCH", path, {**endless, "Expect": "100-continue"})
            assert b" 100 " in wire.line()
            assert wire.line() == b"\r\n"
            assert tus.patch(path, 3).status == 204
            assert wire.answer().refusal == (408, "UPLOAD_STALLED")


class TestAKilledWriter:
    def test_another_server_goes_on_where_the_bytes_end(self, gateway: Gateway):
        """The lease of a process that is no more must not keep its uploads locked."""
        tus = gateway.caller()
        path = tus.created(LENGTH)
        with tus.hold(path, LENGTH, HALF):
            gateway.restart()
        deadline = time.monotonic() + 20
        while (answer := tus.head(path)).status == 423:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        offset = answer.offset
        content = HALF + b"y" * len(HALF)
        while (answer := tus.patch(path, offset, content[offset:])).status == 423:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert answer.status == 204
        assert gateway.bytes_of(path) == content


class TestAServerThatIsToldToStop:
    def test_it_counts_what_it_has_and_goes_soon(self, gateway: Gateway):
        tus = gateway.caller()
        path = tus.created(LENGTH)
        try:
            with tus.hold(path, LENGTH) as wire, Dribble(wire) as slow:
                while slow.sent < 50:
                    time.sleep(0.01)
                assert gateway.stop() == 0
                assert _refused(wire, up_to=600)
                assert slow.sent < slow.pieces, "it was waited for until it had sent everything"
        finally:
            gateway.start()
        kept = tus.head(path).offset
        assert 0 < kept <= slow.sent
        assert gateway.bytes_of(path) == b"x" * kept
        assert tus.patch(path, kept, b"x" * (LENGTH - kept)).status == 204


def _refused(wire: Wire, up_to: int = 500) -> bool:
    """By an answer or, which is allowed too, by a connection that ends without a word."""
    try:
        return 400 <= wire.answer().status < up_to
    except (OSError, http.client.HTTPException):
        return True
