"""What the sessions of one object hold on disk together: twice the announced size at the most, at every moment."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from tests.support.bucket import QUANTUM, BucketThread, until

from penstock.embedded.bucket.body import Body, HungUpOn, Patience
from penstock.embedded.bucket.threads import ITSELF, FairWork, OwnedWork
from penstock.kernel.clock import SystemClock

ANNOUNCED = 16 * QUANTUM
NAME = "videos/user/film"
CHUNK = bytes(QUANTUM)


@pytest.fixture
def fresh(tmp_path) -> Iterator[BucketThread]:
    with BucketThread(tmp_path) as bucket:
        yield bucket


def sessions_of(bucket: BucketThread, count: int, name: str = NAME) -> list[str]:
    headers = {"x-goog-content-length-range": f"0,{ANNOUNCED}", "x-goog-if-generation-match": "0"}
    signed = bucket.signed(name, headers)
    return [bucket.begin_at(signed, headers) for _ in range(count)]


def on_disk(bucket: BucketThread) -> int:
    """Bytes of files that were all there at the same time: one that goes meanwhile makes the count begin anew."""
    while True:
        files = set((bucket.directory / "data").iterdir())
        with contextlib.suppress(FileNotFoundError):
            held = sum(path.stat().st_size for path in files)
            if files <= set((bucket.directory / "data").iterdir()):
                return held


def states(bucket: BucketThread, sessions: list[str]) -> list[int]:
    return [bucket.asked(each).status_code for each in sessions]


def send_quantum(bucket: BucketThread, session: str, start: int = 0) -> int:
    return bucket.put(session, CHUNK, f"bytes {start}-{start + QUANTUM - 1}/*").status_code


class OpenSender:
    """A request that has begun and sends when it is told; its body ends a quantum before the announced size."""

    def __init__(self, bucket: BucketThread, session: str, first: int) -> None:
        length = ANNOUNCED - QUANTUM
        parts = urlsplit(session)
        self.wire = socket.create_connection((str(parts.hostname), parts.port or 80), timeout=20)
        head = (
            f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Length: {length}\r\n"
            f"Content-Range: bytes 0-{length - 1}/*\r\n\r\n"
        )
        self.wire.sendall(head.encode() + bytes(first))
        self._rest = length - first

    def send_rest(self) -> str:
        """The status that it is answered with."""
        with self.wire, contextlib.suppress(ConnectionError):
            with contextlib.suppress(ConnectionError):
                self.wire.sendall(bytes(self._rest))
            return self.wire.recv(100)[9:12].decode()
        return "cut off"


class TestSendersAtTheSameTime:
    def test_sixteen_that_began_together_hold_twice_the_announced_size_at_the_most(self, fresh):
        sessions = sessions_of(fresh, 16)
        senders = [OpenSender(fresh, each, first=1000) for each in sessions]
        most = 0
        with ThreadPoolExecutor(16) as threads:
            sending = [threads.submit(each.send_rest) for each in senders]
            while not all(each.done() for each in sending):
                most = max(most, on_disk(fresh))
                time.sleep(0.002)
            answers = [each.result() for each in sending]
        assert max(most, on_disk(fresh)) <= 2 * ANNOUNCED
        assert "308" in answers
        assert sorted(states(fresh, sessions)) == [308] * 2 + [410] * 14

    def test_one_that_gave_way_is_over_also_after_a_restart(self, tmp_path):
        with BucketThread(tmp_path) as bucket:
            first, *others = sessions_of(bucket, 3)
            assert [send_quantum(bucket, each) for each in (first, *others)] == [308] * 3
            assert states(bucket, [first, *others]) == [410, 308, 308]
        with BucketThread(tmp_path, port=urlsplit(bucket.address).port) as bucket:
            assert states(bucket, [first, *others]) == [410, 308, 308]
            assert bucket.put(others[0], CHUNK, f"bytes {QUANTUM}-{2 * QUANTUM - 1}/{2 * QUANTUM}").status_code == 200

    def test_one_that_sends_slowly_stays_before_one_that_has_fallen_silent(self, fresh):
        slow, silent, third = sessions_of(fresh, 3)
        sender = OpenSender(fresh, slow, first=5 * QUANTUM)
        until(lambda: on_disk(fresh) >= 4 * QUANTUM, "its first bytes are kept")
        assert send_quantum(fresh, silent) == 308
        sender.wire.sendall(bytes(5 * QUANTUM))
        sender._rest -= 5 * QUANTUM
        until(lambda: on_disk(fresh) >= 9 * QUANTUM, "the next are kept too")
        assert send_quantum(fresh, third) == 308
        assert sender.send_rest() == "308"
        assert states(fresh, [slow, silent, third]) == [308, 410, 308]


class TestSeveralThatWaitForOneToEnd:
    async def test_each_of_them_may_hang_up_on_its_sender(self):
        """Also in the moment in which the first has, and the sender's request has not noticed yet."""
        fair = FairWork(SystemClock())
        body = Body(asyncio.Event().wait, Patience(60, 60, 60), OwnedWork(fair, ITSELF))
        reading = asyncio.create_task(body.next())
        await asyncio.sleep(0.01)
        for _ in range(4):
            body.hang_up()
            await asyncio.sleep(0)
        with pytest.raises(HungUpOn):
            await reading
        fair.close()


class TestAfterARestart:
    def test_sessions_from_before_count(self, tmp_path):
        with BucketThread(tmp_path) as bucket:
            sessions = sessions_of(bucket, 4)
            for session in (sessions[1], sessions[0]):
                assert send_quantum(bucket, session) == 308
        with BucketThread(tmp_path, port=urlsplit(bucket.address).port) as bucket:
            assert send_quantum(bucket, sessions[2]) == 308
            assert states(bucket, sessions) == [308, 410, 308, 308]
            assert on_disk(bucket) == 2 * QUANTUM

    def test_more_than_two_that_were_left_on_disk_give_way_at_the_start(self, tmp_path):
        """As a bucket from before this rule leaves them."""
        with BucketThread(tmp_path) as bucket:
            sessions = sessions_of(bucket, 5)
            data = bucket.directory / "data"
            names = sorted((bucket.directory / "sessions").iterdir(), key=lambda each: each.stat().st_mtime_ns)
        for age, record in enumerate(names):
            (data / record.name).write_bytes(CHUNK)
            os.utime(data / record.name, (1000 - age, 1000 - age))
        with BucketThread(tmp_path, port=urlsplit(bucket.address).port) as bucket:
            assert on_disk(bucket) == 2 * QUANTUM
            assert states(bucket, sessions) == [308, 308, 410, 410, 410]


class TestAnObjectThatIsThere:
    """Its quota has been given back, so nothing more of it is kept."""

    def test_the_bytes_of_other_sessions_go_when_it_is_whole(self, fresh):
        one, other, third = sessions_of(fresh, 3)
        assert send_quantum(fresh, other) == 308
        assert fresh.put(one, b"a film").status_code == 200
        until(lambda: on_disk(fresh) == len(b"a film"), "only the object is on disk")
        assert states(fresh, [one, other, third]) == [200, 412, 308]

    def test_no_bytes_are_kept_for_a_session_that_cannot_replace_it(self, fresh):
        one, other = sessions_of(fresh, 2)
        assert fresh.put(one, b"a film").status_code == 200
        assert send_quantum(fresh, other) == 412
        assert states(fresh, [other]) == [412]
        assert on_disk(fresh) == len(b"a film")

    def test_nor_after_a_restart(self, tmp_path):
        """As a bucket leaves them that is killed when the object has just become whole."""
        with BucketThread(tmp_path) as bucket:
            one, other = sessions_of(bucket, 2)
            assert bucket.put(one, b"a film").status_code == 200
            records = bucket.directory / "sessions"
        for record in records.iterdir():
            data = bucket.directory / "data" / record.name
            data.write_bytes(data.read_bytes() if data.exists() and data.stat().st_size else CHUNK)
        with BucketThread(tmp_path, port=urlsplit(bucket.address).port) as bucket:
            assert on_disk(bucket) == len(b"a film")
            assert states(bucket, [one, other]) == [200, 412]

    def test_a_session_that_may_replace_it_goes_on(self, fresh):
        signed = fresh.signed(NAME)
        one, other = fresh.begin_at(signed), fresh.begin_at(signed)
        assert send_quantum(fresh, other) == 308
        assert fresh.put(one, b"a film").status_code == 200
        assert fresh.put(other, b"", f"bytes */{QUANTUM}").status_code == 200
