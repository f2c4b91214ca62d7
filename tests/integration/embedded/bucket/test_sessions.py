"""Resumable sessions, by plain HTTP, as a phone speaks it."""

import base64
import hashlib
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import google_crc32c
import httpx
import pytest
from prometheus_client import REGISTRY
from tests.support.bucket import NAME, QUANTUM, BucketThread, some_bytes, until
from tests.support.clock import TurnedClock

CONTENT = some_bytes(3 * QUANTUM + 12_345)
TOTAL = len(CONTENT)


def sent(bucket: BucketThread, session: str, start: int, end: int, total: int | str = TOTAL) -> httpx.Response:
    return bucket.put(session, CONTENT[start:end], f"bytes {start}-{end - 1}/{total}")


def stored(bucket: BucketThread, name: str) -> bytes:
    return bucket.official().bucket(NAME).blob(name).download_as_bytes()


def counted(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


def refused(hanging: Future[httpx.Response]) -> bool:
    """A sender that was hung up on reads 503, or finds nobody to write to."""
    try:
        return hanging.result(20).status_code == 503
    except httpx.TransportError:
        return True


class TestSending:
    def test_at_once(self, bucket, name):
        answer = bucket.put(bucket.begin(name), CONTENT)
        md5 = base64.b64encode(hashlib.md5(CONTENT).digest()).decode()
        crc = base64.b64encode(google_crc32c.Checksum(CONTENT).digest()).decode()
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["x-goog-hash"] == f"crc32c={crc},md5={md5}"
        assert answer.headers["etag"]
        assert stored(bucket, name) == CONTENT

    def test_chunk_by_chunk(self, bucket, name):
        session = bucket.begin(name)
        first = sent(bucket, session, 0, QUANTUM)
        assert (first.status_code, first.headers["range"]) == (308, f"bytes=0-{QUANTUM - 1}")
        assert "location" not in first.headers
        assert sent(bucket, session, QUANTUM, 3 * QUANTUM).headers["range"] == f"bytes=0-{3 * QUANTUM - 1}"
        assert sent(bucket, session, 3 * QUANTUM, TOTAL).status_code == 200
        assert stored(bucket, name) == CONTENT

    def test_only_whole_quanta_are_kept_before_the_end(self, bucket, name):
        session = bucket.begin(name)
        assert sent(bucket, session, 0, 2 * QUANTUM - 1).headers["range"] == f"bytes=0-{QUANTUM - 1}"
        assert "range" not in sent(bucket, bucket.begin(name), 0, QUANTUM - 1).headers

    def test_what_was_sent_before_is_passed_over(self, bucket, name):
        session = bucket.begin(name)
        sent(bucket, session, 0, 2 * QUANTUM)
        before = counted("penstock_bucket_offset_mismatch_total")
        assert sent(bucket, session, QUANTUM // 2, TOTAL).status_code == 200
        assert counted("penstock_bucket_offset_mismatch_total") == before + 1
        assert stored(bucket, name) == CONTENT

    def test_a_hole_is_refused(self, bucket, name):
        session = bucket.begin(name)
        sent(bucket, session, 0, QUANTUM)
        assert sent(bucket, session, 2 * QUANTUM, TOTAL).status_code == 503
        assert bucket.asked(session, TOTAL).headers["range"] == f"bytes=0-{QUANTUM - 1}"

    def test_a_total_that_is_known_only_at_the_end(self, bucket, name):
        session = bucket.begin(name)
        assert sent(bucket, session, 0, QUANTUM, "*").status_code == 308
        assert sent(bucket, session, QUANTUM, 3 * QUANTUM, "*").status_code == 308
        assert bucket.put(session, CONTENT[3 * QUANTUM :], f"bytes {3 * QUANTUM}-*/*").status_code == 200
        assert stored(bucket, name) == CONTENT

    def test_all_quanta_and_then_the_total(self, bucket, name):
        session = bucket.begin(name)
        sent(bucket, session, 0, 2 * QUANTUM, "*")
        assert bucket.asked(session, 2 * QUANTUM).status_code == 200
        assert stored(bucket, name) == CONTENT[: 2 * QUANTUM]

    @pytest.mark.parametrize("content_range", ["bytes */0", None, "bytes 0-*/*", "bytes 0-*/0"])
    def test_an_object_of_no_bytes(self, bucket, name, content_range):
        answer = bucket.put(bucket.begin(name), b"", content_range)
        assert answer.status_code == 200
        assert stored(bucket, name) == b""
        assert "md5=1B2M2Y8AsgTpgAmY7PhCfg==" in answer.headers["x-goog-hash"]

    def test_a_body_that_ends_early_is_a_place_to_go_on_from(self, bucket, name):
        session = bucket.begin(name)

        def pieces():
            yield CONTENT[: QUANTUM + 1]

        headers = {"content-range": f"bytes 0-{TOTAL - 1}/{TOTAL}"}
        assert bucket.http.put(session, content=pieces(), headers=headers).headers["range"] == f"bytes=0-{QUANTUM - 1}"
        assert sent(bucket, session, QUANTUM, TOTAL).status_code == 200


class TestAsking:
    def test_nothing_has_come(self, bucket, name):
        answer = bucket.asked(bucket.begin(name), TOTAL)
        assert answer.status_code == 308
        assert "range" not in answer.headers

    def test_something_has_come(self, bucket, name):
        session, before = bucket.begin(name), counted("penstock_bucket_resume_total")
        sent(bucket, session, 0, QUANTUM)
        for total in (TOTAL, "*"):
            assert bucket.asked(session, total).headers["range"] == f"bytes=0-{QUANTUM - 1}"
        assert counted("penstock_bucket_resume_total") == before + 3

    def test_everything_has_come(self, bucket, name):
        session = bucket.begin(name)
        generation = bucket.put(session, CONTENT).headers["x-goog-generation"]
        for again in (bucket.asked(session, TOTAL), bucket.asked(session), sent(bucket, session, 3 * QUANTUM, TOTAL)):
            assert (again.status_code, again.headers["x-goog-generation"]) == (200, generation)


class TestBrokenConnections:
    def test_what_came_before_the_cut_is_kept(self, bucket, name):
        session = bucket.begin(name)
        host, port = bucket.address.removeprefix("http://").split(":")
        head = f"PUT {session.removeprefix(bucket.address)} HTTP/1.1\r\nhost: x\r\ncontent-length: {TOTAL}\r\n\r\n"
        with socket.create_connection((host, int(port))) as phone:
            phone.sendall(head.encode() + CONTENT[: 2 * QUANTUM + 50_000])
        kept = bucket.directory / "data" / hashlib.sha256(session.rpartition("=")[2].encode()).hexdigest()
        until(lambda: kept.exists() and kept.stat().st_size, "quanta have come")
        have = int(bucket.asked(session, TOTAL).headers["range"].rpartition("-")[2]) + 1
        assert have == 2 * QUANTUM
        assert sent(bucket, session, have, TOTAL).status_code == 200
        assert stored(bucket, name) == CONTENT

    def test_the_newest_request_wins_over_one_that_hangs(self, bucket, name):
        session, begun, release = bucket.begin(name), threading.Event(), threading.Event()

        def slowly():
            yield CONTENT[: QUANTUM + 1]
            begun.set()
            release.wait(20)
            yield CONTENT[QUANTUM + 1 :]

        headers = {"content-range": f"bytes 0-{TOTAL - 1}/{TOTAL}"}
        with ThreadPoolExecutor(1) as others, httpx.Client(trust_env=False) as phone:
            hanging = others.submit(phone.put, session, content=slowly(), headers=headers)
            begun.wait(20)
            assert bucket.asked(session, TOTAL).status_code == 308
            assert bucket.put(session, CONTENT, headers["content-range"]).status_code == 200
            release.set()
            assert refused(hanging)
        assert stored(bucket, name) == CONTENT

    def test_a_sender_that_falls_silent_is_hung_up_on(self, tmp_path, name):
        with BucketThread(tmp_path, idle_seconds=0.3) as bucket:
            session, release = bucket.begin(name), threading.Event()

            def slowly():
                yield CONTENT[:QUANTUM]
                release.wait(20)
                yield CONTENT[QUANTUM:]

            headers = {"content-range": f"bytes 0-{TOTAL - 1}/{TOTAL}"}
            with ThreadPoolExecutor(1) as others, httpx.Client(trust_env=False) as phone:
                hanging = others.submit(phone.put, session, content=slowly(), headers=headers)
                threading.Timer(1, release.set).start()
                assert refused(hanging)
            assert bucket.asked(session).headers["range"] == f"bytes=0-{QUANTUM - 1}"

    def test_a_fault_in_the_middle(self, bucket, name):
        session = bucket.begin(name)
        bucket.faults.fail_after_bytes = 2 * QUANTUM
        assert bucket.put(session, CONTENT).status_code == 503
        have = int(bucket.asked(session).headers["range"].rpartition("-")[2]) + 1
        assert have >= QUANTUM
        assert sent(bucket, session, have, TOTAL).status_code == 200

    def test_a_lost_answer_is_found_out_by_asking(self, bucket, name):
        session = bucket.begin(name)
        bucket.faults.lost_answers = 1
        assert bucket.put(session, CONTENT).status_code == 500
        assert bucket.asked(session, TOTAL).status_code == 200
        assert stored(bucket, name) == CONTENT


class TestEnding:
    def test_a_session_that_is_cancelled(self, bucket, name):
        session = bucket.begin(name)
        sent(bucket, session, 0, QUANTUM)
        assert bucket.http.delete(session).status_code == 499
        assert bucket.asked(session, TOTAL).status_code == 404
        assert sent(bucket, session, QUANTUM, TOTAL).status_code == 404

    def test_one_that_nobody_knows(self, bucket, name):
        unknown = bucket.begin(name)[:-4] + "none"
        assert bucket.asked(unknown).status_code == 404
        assert bucket.http.delete(unknown).status_code == 404

    def test_one_that_is_too_old(self, tmp_path, name):
        clock = TurnedClock(datetime.now(UTC))
        with BucketThread(tmp_path, clock=clock) as bucket:
            session = bucket.begin(name)
            sent(bucket, session, 0, QUANTUM)
            clock.advance(7 * 86400 + 1)
            assert bucket.asked(session, TOTAL).status_code == 410
        with BucketThread(tmp_path, clock=clock) as bucket:
            until(lambda: not list((tmp_path / "bucket" / "data").iterdir()), "its bytes are gone")

    def test_one_that_is_said_to_be_too_old(self, bucket, name):
        session = bucket.begin(name)
        bucket.faults.expire_sessions = True
        assert bucket.put(session, CONTENT).status_code == 410

    def test_a_session_of_another_object(self, bucket, name):
        session = bucket.begin(name)
        assert bucket.asked(session.replace(name, f"{name}x")).status_code == 400


class TestPreconditions:
    def test_of_two_sessions_the_first_to_end_wins(self, bucket, name):
        one, other = bucket.begin(name), bucket.begin(name)
        sent(bucket, one, 0, QUANTUM)
        before = counted("penstock_bucket_precondition_failed_total")
        assert bucket.put(other, CONTENT).status_code == 200
        assert sent(bucket, one, QUANTUM, TOTAL).status_code == 412
        assert counted("penstock_bucket_precondition_failed_total") == before + 1
        assert bucket.asked(one, TOTAL).status_code == 412
        assert stored(bucket, name) == CONTENT

    def test_of_many_at_once_one_wins(self, bucket, name):
        sessions = [bucket.begin(name) for _ in range(8)]
        bodies = [bytes([at]) * 1000 for at in range(8)]
        with ThreadPoolExecutor(8) as phones:
            answers = list(
                phones.map(lambda each: httpx.put(each[0], content=each[1]), zip(sessions, bodies, strict=True))
            )
        assert sorted(answer.status_code for answer in answers) == [200] + 7 * [412]
        winner = next(at for at, answer in enumerate(answers) if answer.status_code == 200)
        assert stored(bucket, name) == bodies[winner]

    def test_without_one_the_last_wins_and_generations_grow(self, bucket, name):
        made = [int(bucket.put(bucket.begin(name, generation_match=None), CONTENT).headers["x-goog-generation"])
                for _ in range(5)]  # fmt: skip
        assert made == sorted(set(made))
        again = bucket.put(bucket.begin(name, generation_match=str(made[-1])), b"new")
        assert again.status_code == 200
        assert stored(bucket, name) == b"new"


@pytest.fixture
def small(tmp_path):
    with BucketThread(tmp_path, largest_object=QUANTUM + 10, most_sessions=4, session_share=1) as bucket:
        yield bucket


class TestLimits:
    def test_an_object_that_says_it_is_too_large(self, small, name):
        session = small.begin(name)
        assert small.put(session, b"x" * 10, f"bytes 0-9/{2 * QUANTUM}").status_code == 400
        assert small.http.delete(session).status_code == 499

    def test_one_that_does_not_say_so(self, small, name):
        session = small.begin(name)

        def endless():
            for _ in range(4):
                yield b"x" * QUANTUM

        assert small.http.put(session, content=endless()).status_code == 400
        assert small.http.delete(session).status_code == 499

    def test_too_many_sessions(self, small, name):
        sessions = [small.begin(f"{name}/{at}") for at in range(4)]
        answer = small.http.post(small.signed(name), headers={"x-goog-resumable": "start"})
        assert answer.status_code == 429
        small.http.delete(sessions[0])
        assert small.begin(name)


class TestRestarting:
    def test_sessions_and_objects_are_there_again(self, tmp_path: Path, name):
        with BucketThread(tmp_path) as bucket:
            done = bucket.begin("videos/done")
            generation = bucket.put(done, CONTENT).headers["x-goog-generation"]
            session, port = bucket.begin(name), int(bucket.address.rpartition(":")[2])
            sent(bucket, session, 0, 2 * QUANTUM)
        with BucketThread(tmp_path, port=port) as bucket:
            assert bucket.asked(session, TOTAL).headers["range"] == f"bytes=0-{2 * QUANTUM - 1}"
            assert sent(bucket, session, 2 * QUANTUM, TOTAL).status_code == 200
            assert stored(bucket, name) == CONTENT
            assert bucket.asked(done, TOTAL).headers["x-goog-generation"] == generation

    def test_one_process_holds_the_directory(self, bucket, tmp_path: Path):
        from penstock.embedded import EmbeddedFailure

        with pytest.raises(EmbeddedFailure, match="in use"), BucketThread(bucket.directory.parent):
            pass
