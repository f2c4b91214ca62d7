"""However much of a bucket one uploader takes, another has its share. The folder of an object names its uploader."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import httpx
import pytest
from tests.support.bucket import QUANTUM, BucketThread
from tests.support.clock import TurnedClock

START = {"x-goog-resumable": "start"}
CONTENT = b"a film" * 100


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock(datetime.now(UTC))


@pytest.fixture
def small(tmp_path: Path, clock: TurnedClock) -> Iterator[BucketThread]:
    """A bucket for eight sessions, four of one uploader."""
    with BucketThread(tmp_path, clock=clock, most_sessions=8, session_share=0.5) as bucket:
        yield bucket


def sessions_of(bucket: BucketThread, user: str, count: int) -> list[str]:
    return [bucket.begin(f"videos/{user}/{number}") for number in range(count)]


def begun(bucket: BucketThread, name: str) -> httpx.Response:
    return bucket.http.post(bucket.signed(name, expiration=timedelta(days=7)), headers=START)


def states(bucket: BucketThread, sessions: list[str]) -> list[int]:
    return [bucket.asked(each).status_code for each in sessions]


class TestSessions:
    def test_one_uploader_has_a_part_of_them_and_is_told_so(self, small):
        sessions_of(small, "greedy", 4)
        refused = begun(small, "videos/greedy/more")
        assert refused.status_code == 429
        assert "This uploader has 4 sessions open" in refused.text
        assert begun(small, "pdfs/greedy/more").status_code == 429  # whatever the kind of file
        assert small.send("videos/victim/a", CONTENT).status_code == 200

    def test_those_that_have_ended_do_not_count(self, small):
        for number in range(6):
            assert small.send(f"videos/busy/{number}", CONTENT).status_code == 200
        for session in sessions_of(small, "busy", 4):
            assert small.http.delete(session).status_code == 499
        sessions_of(small, "busy", 4)

    def test_an_uploader_whose_share_is_full_of_empty_ones_begins_again_after_a_few_minutes(self, small, clock):
        sessions = sessions_of(small, "phone", 4)
        assert small.put(sessions[0], bytes(QUANTUM), f"bytes 0-{QUANTUM - 1}/*").status_code == 308
        clock.advance(6 * 60)
        assert begun(small, "videos/phone/more").status_code == 201
        assert states(small, sessions) == [308, 404, 308, 308]

    def test_when_all_are_taken_the_oldest_empty_one_of_the_greediest_makes_way(self, small, clock):
        greedy, other = sessions_of(small, "greedy", 4), sessions_of(small, "other", 3)
        clock.advance(6 * 60)
        small.begin("videos/late/a")
        assert begun(small, "videos/victim/a").status_code == 201
        assert states(small, greedy) == [404, 308, 308, 308]
        assert states(small, other) == [308] * 3

    def test_none_that_has_just_begun_makes_way_for_another(self, small):
        sessions = [*sessions_of(small, "a", 4), *sessions_of(small, "b", 4)]
        refused = begun(small, "videos/victim/a")
        assert (refused.status_code, "All 8 sessions" in refused.text) == (429, True)
        assert states(small, sessions) == [308] * 8

    def test_those_with_bytes_make_way_when_nobody_has_sent_any_for_a_day(self, small, clock):
        sessions = [*sessions_of(small, "a", 4), *sessions_of(small, "b", 4)]
        for each in sessions:
            assert small.put(each, bytes(QUANTUM), f"bytes 0-{QUANTUM - 1}/*").status_code == 308
        clock.advance(23 * 3600)
        assert begun(small, "videos/victim/a").status_code == 429
        assert small.put(sessions[0], bytes(QUANTUM), f"bytes {QUANTUM}-{2 * QUANTUM - 1}/*").status_code == 308
        clock.advance(2 * 3600)
        assert begun(small, "videos/victim/a").status_code == 201
        assert states(small, sessions[:2]) == [308, 404]

    def test_a_restart_forgets_neither_shares_nor_which_are_empty(self, tmp_path, clock):
        limits = {"most_sessions": 8, "session_share": 0.5, "clock": clock}
        with BucketThread(tmp_path, **limits) as bucket:
            sessions = sessions_of(bucket, "greedy", 4)
            assert bucket.put(sessions[0], bytes(QUANTUM), f"bytes 0-{QUANTUM - 1}/*").status_code == 308
        with BucketThread(tmp_path, port=urlsplit(bucket.address).port or 0, **limits) as bucket:
            assert begun(bucket, "videos/greedy/more").status_code == 429
            clock.advance(6 * 60)
            assert begun(bucket, "videos/greedy/more").status_code == 201
            assert states(bucket, sessions[:1]) == [308]
            assert sorted(states(bucket, sessions[1:])) == [308, 308, 404]


class TestTurns:
    """Requests of one uploader take turns, so another with one connection is served between them."""

    def test_many_connections_of_one_uploader_hold_up_its_own_requests_only(self, tmp_path):
        with BucketThread(tmp_path) as bucket:
            signed = [bucket.signed(f"videos/greedy/{number}") for number in range(4)]
            greedy = [bucket.begin_at(each) for each in signed for _ in range(16)]
            victim = bucket.begin("videos/victim/a")
            crowd, one = asyncio.run(beside(greedy, victim))
        assert one < crowd / 2

    def test_those_of_strangers_hold_up_strangers_only(self, tmp_path):
        with BucketThread(tmp_path) as bucket:
            nothing = f"{bucket.address}/penstock-uploads/videos/a?upload_id=none"
            crowd, one = asyncio.run(beside([nothing] * 64, bucket.begin("videos/victim/a")))
        assert one < crowd / 2


async def beside(many: list[str], one: str) -> tuple[float, float]:
    """How long, in the median, one of many connections waits for an answer, and one of somebody else beside them."""
    done = asyncio.Event()
    crowd = [asyncio.create_task(asking(each, done)) for each in many]
    alone = asyncio.create_task(asking(one, done, count=25))
    waited = await alone
    done.set()
    return median([each for waits in await asyncio.gather(*crowd) for each in waits]), median(waited)


async def asking(session: str, done: asyncio.Event, count: int = 10_000) -> list[float]:
    parts, waited = urlsplit(session), []
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    asks = (
        f"PUT {parts.path}?{parts.query} HTTP/1.1\r\nHost: a\r\nContent-Range: bytes */*\r\nContent-Length: 0\r\n\r\n"
    )
    while not done.is_set() and len(waited) < count:
        began = time.perf_counter()
        writer.write(asks.encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r")[0]))
        waited.append(time.perf_counter() - began)
    writer.close()
    return waited
