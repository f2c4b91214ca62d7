"""What a network and odd clients do to requests: drops, chunked bodies, waiting, pipelining, doubled headers."""

import time

import pytest
from tests.support.gateway import Gateway
from tests.support.tus import CHUNK, UPLOADS, Answer, Tus, checksum, metadata

SOME = bytes(range(256)) * 512  # 128 KiB


def settled(tus: Tus, path: str, offset: int, seconds: float = 10) -> Answer:
    """Ask until it stands there; the last answer says how far it came."""
    deadline = time.monotonic() + seconds
    while (answer := tus.head(path)).offset != offset and time.monotonic() < deadline:
        time.sleep(0.02)
    return answer


def finish(tus: Tus, path: str, content: bytes, seconds: float = 10) -> None:
    """As clients do: ask for the offset and send the rest, until it is taken."""
    deadline = time.monotonic() + seconds
    while True:
        offset = tus.head(path).offset
        answer = tus.patch(path, offset, content[offset:])
        if answer.status == 204:
            return
        assert answer.status in (409, 423), answer.status  # the broken request is not quite over yet
        assert time.monotonic() < deadline


class TestDroppedConnections:
    def test_what_arrived_is_kept(self, tus: Tus, gateway: Gateway):
        path = tus.created(2 * len(SOME))
        with tus.begin_patch(path, 0, 2 * len(SOME), SOME) as wire:
            wire.no_more()
        assert settled(tus, path, len(SOME)).offset == len(SOME)
        assert gateway.bytes_of(path) == SOME
        assert tus.patch(path, len(SOME), SOME).offset == 2 * len(SOME)
        assert gateway.bytes_of(path) == SOME + SOME

    def test_after_a_reset_the_offset_is_a_true_one(self, tus: Tus, gateway: Gateway):
        path = tus.created(2 * len(SOME))
        tus.hold(path, 2 * len(SOME), SOME).drop()
        assert tus.head(path).offset <= len(SOME)
        finish(tus, path, SOME + SOME)
        assert gateway.bytes_of(path) == SOME + SOME

    def test_with_a_checksum_nothing_counts_before_it_was_checked(self, tus: Tus, gateway: Gateway):
        path = tus.created(2 * len(SOME))
        check = checksum(SOME + SOME)
        with tus.begin_patch(path, 0, 2 * len(SOME), SOME, upload_checksum=check) as wire:
            wire.no_more()
            wire.is_over()
        assert tus.head(path).offset == 0
        assert tus.patch(path, 0, SOME + SOME, upload_checksum=check).status == 204
        assert gateway.bytes_of(path) == SOME + SOME

    def test_what_was_never_checked_is_not_left_in_the_file(self, tus: Tus, gateway: Gateway):
        path = tus.created()
        wire = tus.hold(path, 2 * len(SOME), SOME, upload_checksum=checksum(SOME + SOME))
        deadline = time.monotonic() + 10
        while not ((file := gateway.file_of(path)) and file.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.02)  # a server may hold all of it in memory, and then there is nothing to leave
        wire.drop()
        while (answer := tus.patch(path, 0, b"abc", upload_length="3")).status == 423:
            assert time.monotonic() < deadline
        assert answer.offset == 3
        assert gateway.row(path)["status"] == "FINISHED"
        assert gateway.bytes_of(path) == b"abc"

    def test_many_drops_in_a_row_lose_and_double_nothing(self, tus: Tus, gateway: Gateway):
        path, content = tus.created(len(SOME)), SOME
        for number in range(8):
            offset = tus.head(path).offset
            with tus.begin_patch(path, offset, len(content) - offset, content[offset : offset + 5001]) as wire:
                if number % 2:
                    wire.drop()
        finish(tus, path, content)
        assert gateway.bytes_of(path) == content

    def test_a_first_chunk_that_breaks_off_leaves_no_upload_in_the_way(self, tus: Tus):
        with tus.wire() as wire:
            headers = {"Upload-Length": "100", "Upload-Metadata": metadata(), "Content-Type": CHUNK}
            wire.send_head("POST", UPLOADS, {**headers, "Content-Length": "100"})
            wire.send(b"hello")
        assert tus.create(3).status == 201


class TestChunkedBodies:
    def test_a_body_of_unknown_size_is_taken_as_it_comes(self, tus: Tus, gateway: Gateway):
        path = tus.created(len(SOME))
        with tus.wire() as wire:
            wire.send_head("PATCH", path, _chunked())
            for start in range(0, len(SOME), 10_007):
                wire.send_chunk(SOME[start : start + 10_007])
            wire.send_chunk(b"")
            answer = wire.answer()
        assert (answer.status, answer.offset) == (204, len(SOME))
        assert gateway.bytes_of(path) == SOME

    def test_one_that_turns_out_longer_than_the_upload_is_413(self, tus: Tus, gateway: Gateway):
        path = tus.created(6)
        with tus.wire() as wire:
            wire.send_head("PATCH", path, _chunked())
            for piece in (b"abcd", b"efgh", b""):
                wire.send_chunk(piece)
            assert wire.answer().refusal == (413, "UPLOAD_LENGTH_EXCEEDED")
        offset = tus.head(path).offset
        assert gateway.bytes_of(path) == b"abcdef"[:offset]
        tus.patch(path, offset, b"abcdef"[offset:])
        assert gateway.bytes_of(path) == b"abcdef"

    def test_one_that_breaks_off_keeps_what_arrived(self, tus: Tus, gateway: Gateway):
        path = tus.created(2 * len(SOME))
        with tus.wire() as wire:
            wire.send_head("PATCH", path, _chunked())
            wire.send_chunk(SOME)
        assert settled(tus, path, len(SOME)).offset == len(SOME)
        assert gateway.bytes_of(path) == SOME

    def test_a_chunk_of_nonsense_ends_the_request_and_no_more(self, tus: Tus):
        path = tus.created(6)
        with tus.wire() as wire:
            wire.send_head("PATCH", path, _chunked())
            wire.send(b"zz\r\nabc\r\n0\r\n\r\n")
            assert wire.is_over()
        assert tus.head(path).offset == 0
        assert tus.patch(path, 0, b"abcdef").status == 204

    def test_a_trailer_is_not_taken_for_a_header(self, tus: Tus, gateway: Gateway):
        path = tus.created(6)
        with tus.wire() as wire:
            wire.send_head("PATCH", path, {**_chunked(), "Trailer": "Upload-Offset, Upload-Length"})
            wire.send(b"3\r\nabc\r\n0\r\nUpload-Offset: 3\r\nUpload-Length: 3\r\n\r\n")
            answer = wire.answer()
        assert (answer.status, answer.offset) == (204, 3)
        assert (tus.head(path)["Upload-Length"], gateway.row(path)["status"]) == ("6", "UPLOADING")

    def test_a_checksum_in_a_trailer_is_not_announced(self, tus: Tus):
        assert "checksum-trailer" not in (tus.options()["Tus-Extension"] or "").split(",")


class TestWaitingForLeave:
    """`Expect: 100-continue`: the client sends the body only when it is told to."""

    def test_leave_is_given(self, tus: Tus):
        path = tus.created(3)
        with tus.begin_patch(path, 0, 3, expect="100-continue") as wire:
            assert b" 100 " in wire.line()
            wire.line()
            wire.send(b"abc")
            assert wire.answer().offset == 3

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({"upload_offset": "5"}, 409),
            ({"content_type": "text/plain"}, 415),
            ({"tus_resumable": "0.2.2"}, 412),
            ({"authorization": None}, 401),
            ({"content_length": "9"}, 413),
            ({"upload_checksum": "md5 eA=="}, 400),
        ],
        ids=["offset", "type", "version", "token", "length", "checksum"],
    )
    def test_a_refusal_comes_before_the_body(self, tus: Tus, headers: dict[str, str | None], status: int):
        path = tus.created(3)
        with tus.begin_patch(path, 0, 3, expect="100-continue", **headers) as wire:
            assert f" {status} ".encode() in wire.line()
        assert tus.head(path).offset == 0

    def test_a_refused_large_body_is_not_waited_for(self, tus: Tus):
        path = tus.created(3)
        with tus.begin_patch(path, 0, 1 << 30, b"abc") as wire:
            assert wire.answer().status == 413
        assert tus.head(path).offset == 0


class TestConnections:
    def test_who_sends_a_whole_body_before_listening_still_hears_that_it_was_refused(self, tus: Tus):
        """Proxies do so. A connection that is reset under them is a broken server to them."""
        path, body = tus.created(16 << 20), bytes(16 << 20)
        with tus.begin_patch(path, 5, len(body)) as wire:
            wire.send(body)
            assert wire.answer().refusal == (409, "OFFSET_MISMATCH")

    def test_one_connection_carries_many_requests_refused_ones_too(self, tus: Tus, gateway: Gateway):
        path = tus.created(6)
        with tus.wire() as wire:
            for offset, body, status in ((0, b"abc", 204), (0, b"abc", 409), (3, b"def", 204), (6, b"", 204)):
                headers = {"Upload-Offset": str(offset), "Content-Type": CHUNK, "Content-Length": str(len(body))}
                wire.send_head("PATCH", path, headers)
                wire.send(body)
                assert wire.answer().status == status
        assert gateway.bytes_of(path) == b"abcdef"

    def test_pipelined_chunks_are_taken_in_order(self, tus: Tus, gateway: Gateway):
        path = tus.created(6)
        with tus.wire() as wire:
            for offset, body in ((0, b"abc"), (3, b"def")):
                headers = {"Upload-Offset": str(offset), "Content-Type": CHUNK, "Content-Length": "3"}
                wire.send_head("PATCH", path, headers)
                wire.send(body)
            reading = b""
            while reading.count(b"HTTP/1.1 ") < 2 or not reading.endswith(b"\r\n\r\n"):
                reading += wire.socket.recv(65536)
        assert reading.count(b"HTTP/1.1 204") == 2
        assert gateway.bytes_of(path) == b"abcdef"

    def test_names_of_headers_come_in_any_case(self, tus: Tus):
        path = tus.created(3)
        with tus.wire() as wire:
            headers = {"uPLOAD-oFFSET": "0", "CONTENT-TYPE": CHUNK.upper(), "content-length": "3"}
            wire.send_head("PATCH", path, headers)
            wire.send(b"abc")
            assert wire.answer().status == 204

    def test_http_1_0_works_as_well(self, tus: Tus):
        path = tus.created(3)
        with tus.wire() as wire:
            headers = {"Upload-Offset": "0", "Content-Type": CHUNK, "Content-Length": "3"}
            wire.send_head("PATCH", path, headers, version="1.0")
            wire.send(b"abc")
            assert wire.answer().offset == 3

    def test_a_body_in_single_bytes_arrives_as_one(self, tus: Tus, gateway: Gateway):
        path = tus.created(40)
        with tus.begin_patch(path, 0, 40) as wire:
            for number in range(40):
                wire.send(bytes([number]))
            assert wire.answer().offset == 40
        assert gateway.bytes_of(path) == bytes(range(40))


class TestDoubledHeaders:
    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("Upload-Offset", ("0", "3")),
            ("Upload-Offset", ("3", "0")),
            ("Upload-Length", ("6", "9")),
            ("Upload-Checksum", (checksum(b"abc"), checksum(b"xyz"))),
        ],
    )
    def test_two_values_where_one_belongs_are_refused(self, tus: Tus, name: str, values: tuple[str, str]):
        path = tus.created()
        others = {"Upload-Offset": "0", "Content-Type": CHUNK}
        others.pop(name, None)
        answer = tus.ask("PATCH", path, [*others.items(), *((name, value) for value in values)], b"abc")
        assert answer.status == 400
        assert tus.head(path).offset == 0

    def test_two_lengths_at_creation_are_refused(self, tus: Tus):
        headers = [("Upload-Length", "3"), ("Upload-Length", "9"), ("Upload-Metadata", metadata())]
        assert tus.ask("POST", UPLOADS, headers).status == 400

    @pytest.mark.parametrize(
        "headers",
        [
            [("Content-Length", "3"), ("Content-Length", "5")],
            [("Content-Length", "3"), ("Transfer-Encoding", "chunked")],
            [("Content-Length", "-3")],
            [("Content-Length", "three")],
        ],
        ids=["two lengths", "length and chunks", "negative", "no number"],
    )
    def test_a_body_whose_end_is_in_doubt_writes_nothing_odd(self, tus: Tus, gateway: Gateway, headers):
        path = tus.created(6)
        with tus.wire() as wire:
            wire.send_head("PATCH", path, [("Upload-Offset", "0"), ("Content-Type", CHUNK), *headers])
            wire.send(b"3\r\nabc\r\n0\r\n\r\n")
            wire.no_more()
            wire.is_over()
        assert gateway.bytes_of(path) in (b"", b"abc")
        assert tus.head(path).offset in (0, 3)


def _chunked() -> dict[str, str]:
    return {"Upload-Offset": "0", "Content-Type": CHUNK, "Transfer-Encoding": "chunked"}
