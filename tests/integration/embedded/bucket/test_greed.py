"""Senders who want more of a bucket than is theirs, or contradict themselves."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest
from tests.support.bucket import NAME, QUANTUM, BucketThread, until
from tests.support.clock import TurnedClock

CONTENT = b"a film" * 100


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BucketThread]:
    home = tmp_path_factory.mktemp("hasty")
    with BucketThread(home, body_seconds=0.4, drain_seconds=0.3, fault_switches=True) as bucket:
        yield bucket


class TestManySessions:
    def test_of_too_many_for_one_object_the_oldest_is_forgotten(self, bucket, name):
        other, signed = bucket.begin(f"{name}-other"), bucket.signed(name)
        sessions = [bucket.begin_at(signed) for _ in range(17)]
        assert [bucket.asked(each).status_code for each in sessions] == [404] + [308] * 16
        assert bucket.asked(other).status_code == 308

    def test_two_of_one_object_hold_bytes_the_third_takes_the_place_of_the_one_that_was_silent_longest(
        self, bucket, name
    ):
        """Or an announced size could be sent sixteen times over."""
        signed, chunk = bucket.signed(name), bytes(QUANTUM)
        first, second, third = (bucket.begin_at(signed) for _ in range(3))
        for session, start in ((first, 0), (second, 0), (first, QUANTUM), (third, 0)):
            sent = bucket.put(session, chunk, f"bytes {start}-{start + QUANTUM - 1}/*")
            assert sent.status_code == 308
        assert [bucket.asked(each).status_code for each in (first, second, third)] == [308, 410, 308]

    def test_those_that_were_cancelled_leave_nothing(self, bucket, name):
        before = files(bucket)
        signed = bucket.signed(name)
        for _ in range(40):
            session = bucket.begin_at(signed)
            assert bucket.http.delete(session).status_code == 499
        assert files(bucket) == before
        assert bucket.asked(session).status_code == 404

    def test_those_that_were_refused_in_the_end_are_kept_for_a_few_only(self, bucket, name):
        bucket.send(name, CONTENT)
        before, once = files(bucket), {"x-goog-if-generation-match": "0"}
        signed = bucket.signed(name, once)
        for _ in range(40):
            assert bucket.put(bucket.begin_at(signed, once), CONTENT).status_code == 412
        assert len(files(bucket) - before) <= 16

    def test_those_that_have_ended_are_not_counted(self, bucket, name):
        first, signed = bucket.begin(name), bucket.signed(name)
        for _ in range(16):
            bucket.http.delete(bucket.begin_at(signed))
        assert bucket.put(first, CONTENT).status_code == 200
        assert bucket.asked(first).status_code == 200


def files(bucket: BucketThread) -> set[str]:
    """What the bucket keeps of sessions, objects and bytes."""
    kept = [path for path in bucket.directory.rglob("*") if path.is_file() and path.parent.name != "tmp"]
    return {str(path) for path in kept}


class TestTheAnnouncedSize:
    """Whoever signs an address says how much may be sent to it."""

    def test_as_much_as_was_announced_is_taken(self, bucket, name):
        assert bucket.put(bucket.begin(name, most=len(CONTENT)), CONTENT).status_code == 200

    def test_more_ends_the_session_and_leaves_no_bytes(self, bucket, name):
        before = files(bucket)
        session = bucket.begin(name, most=1000)
        answer = bucket.put(session, bytes(8 * QUANTUM), "bytes 0-*/*")
        assert (answer.status_code, "EntityTooLarge" in answer.text) == (400, True)
        assert bucket.put(session, CONTENT).status_code == 400
        assert not {path for path in files(bucket) - before if "/data/" in path}

    def test_a_body_without_an_end_is_cut_off_where_the_announcement_ends(self, bucket, name):
        session = bucket.begin(name, most=2 * QUANTUM)
        with bucket.trickle("PUT", session.removeprefix(bucket.address)) as wire:
            for _ in range(3):
                wire.sendall(f"{QUANTUM:x}\r\n".encode() + bytes(QUANTUM) + b"\r\n")
            wire.sendall(b"0\r\n\r\n")
            assert b" 400 " in wire.recv(100)

    def test_a_chunk_of_a_larger_whole_is_refused_before_it_is_read(self, bucket, name):
        session = bucket.begin(name, most=QUANTUM)
        assert bucket.put(session, bytes(QUANTUM), f"bytes 0-{QUANTUM - 1}/{2 * QUANTUM}").status_code == 400
        assert bucket.put(session, bytes(QUANTUM), f"bytes 0-{QUANTUM - 1}/*").status_code == 308
        assert bucket.put(session, bytes(1), f"bytes {QUANTUM}-{QUANTUM}/*").status_code == 400

    def test_too_little_is_refused(self, bucket, name):
        said = {"x-goog-content-length-range": "10,20"}
        url = bucket.signed(name, said)
        session = bucket.http.post(url, headers={**said, "x-goog-resumable": "start"}).headers["location"]
        assert bucket.put(session, b"short").status_code == 400

    @pytest.mark.parametrize("said", ["", "5", "5,", ",5", "9,5", "-1,5", "0,5,6", "a,b", f"0,{10**19}"])
    def test_a_range_that_cannot_be_read_begins_nothing(self, bucket, name, said):
        url = bucket.signed(name, {"x-goog-content-length-range": said})
        headers = {"x-goog-content-length-range": said, "x-goog-resumable": "start"}
        assert bucket.http.post(url, headers=headers).status_code == 400

    def test_it_cannot_be_changed_by_the_sender(self, bucket, name):
        url = bucket.signed(name, {"x-goog-content-length-range": "0,10"})
        headers = {"x-goog-content-length-range": "0,1000", "x-goog-resumable": "start"}
        assert bucket.http.post(url, headers=headers).status_code == 403


class TestTheDisk:
    def test_it_is_never_filled_up_and_what_came_before_and_was_said_is_kept(self, tmp_path):
        content = bytes(QUANTUM + 5)
        with BucketThread(tmp_path) as bucket:
            session, narrow = bucket.begin("videos/a"), bucket.begin("videos/b", most=1000)
            assert bucket.put(session, content[:QUANTUM], f"bytes 0-{QUANTUM - 1}/{QUANTUM + 5}").status_code == 308
        port = urlsplit(bucket.address).port
        rest = (session, content[QUANTUM:], f"bytes {QUANTUM}-{QUANTUM + 4}/{QUANTUM + 5}")
        with BucketThread(tmp_path, port=port, keep_free_bytes=2**60) as bucket:
            assert bucket.put(*rest).status_code == 503
            assert bucket.asked(session).headers["range"] == f"bytes=0-{QUANTUM - 1}"
        with BucketThread(tmp_path, port=port) as bucket:
            assert bucket.put(*rest).status_code == 200
            assert bucket.put(narrow, bytes(1001)).status_code == 400


class TestSlowBodies:
    """A sender that is never silent for long, and never done either."""

    def test_a_form_of_unknown_length_is_refused_at_once(self, bucket):
        with bucket.trickle("POST", "/token") as wire:
            wire.sendall(b"0\r\n\r\n")
            assert b" 411 " in wire.recv(100)

    def test_a_form_that_says_it_is_too_large_is_not_read(self, bucket):
        assert bucket.http.post(f"{bucket.address}/token", content=bytes(40_000)).status_code == 413

    @pytest.mark.parametrize(
        ("target", "head"),
        [
            ("/token", "Content-Length: 3000"),
            ("/_/faults", "Content-Length: 3000"),
            ("/nowhere", "Content-Length: 3000"),
        ],
    )
    def test_it_is_over_in_time(self, hasty, target, head):
        """Also what is refused, and read only so that the sender hears why."""
        parts = urlsplit(hasty.address)
        with socket.create_connection((str(parts.hostname), parts.port or 80), timeout=0.05) as wire:
            wire.sendall(f"POST {target} HTTP/1.1\r\nHost: {parts.netloc}\r\n{head}\r\n\r\n".encode())
            assert answered_while_trickling(wire) < 8


def answered_while_trickling(wire: socket.socket) -> float:
    """Seconds until an answer came; a byte is sent every 50 ms."""
    began = time.monotonic()
    while time.monotonic() - began < 10:
        with contextlib.suppress(ConnectionError):
            wire.sendall(b"a")
        with contextlib.suppress(TimeoutError):
            wire.recv(100)
            return time.monotonic() - began
    return float("inf")


class TestQuarantine:
    """Objects that were not what they were announced as, which the server moves to that folder."""

    DAY = 86_400

    def test_it_is_emptied_after_some_days_and_of_too_much_the_oldest_goes(self, tmp_path):
        clock, room = TurnedClock(datetime.now(UTC)), 2 * len(CONTENT)
        limits = {"quarantine_days": timedelta(days=3), "quarantine_bytes": room, "sweep_seconds": 0.05}
        with BucketThread(tmp_path, clock=clock, **limits) as bucket:
            for name in ("quarantine/a", "quarantine/b", "quarantine/c", "videos/b"):
                bucket.send(name, CONTENT)
            until(lambda: names(bucket) == ["quarantine/b", "quarantine/c", "videos/b"], "the oldest is gone")
            clock.advance(2 * self.DAY)
            later = f"/upload/storage/v1/b/{NAME}/o?uploadType=media&name=quarantine/d"
            assert bucket.api("POST", later, content=CONTENT).status_code == 200
            clock.advance(2 * self.DAY)
            until(lambda: names(bucket) == ["quarantine/d", "videos/b"], "the old ones are gone")
            until(lambda: len(list((bucket.directory / "data").iterdir())) == 2, "and so are their bytes")


def names(bucket: BucketThread) -> list[str]:
    records = [json.loads(path.read_bytes())["object"] for path in (bucket.directory / "objects").iterdir()]
    return sorted(each["name"] for each in records if each)


class TestContradictions:
    @pytest.mark.parametrize("said", ["bytes 5-*/3", "bytes 3-2/10", "bytes 0-9/5"])
    def test_a_range_that_cannot_be_is_refused_and_changes_nothing(self, bucket, name, said):
        session = bucket.begin(name)
        assert bucket.put(session, b"", said).status_code == 400
        assert bucket.put(session, CONTENT).status_code == 200
