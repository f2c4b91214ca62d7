"""Killed at any point: what was acknowledged is there, what was made is told, nothing is there by half."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.bucket import NAME, QUANTUM, BucketProcess, Listener, listening, some_bytes, until

CONTENT = some_bytes(4 * QUANTUM + 99)
TOTAL = len(CONTENT)


@pytest.fixture
def told() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


@pytest.fixture
def bucket(tmp_path: Path, told: Listener) -> Iterator[BucketProcess]:
    process = BucketProcess(tmp_path / "home", BUCKET_PUSH_URL=told.url, BUCKET_PUSH_WAIT="0.05")
    yield process
    process.close()


def stored(bucket: BucketProcess, name: str) -> bytes:
    return bucket.official().bucket(NAME).blob(name).download_as_bytes()


class TestWhileChunksCome:
    def test_what_was_acknowledged_is_kept(self, bucket, told):
        session = bucket.start(PENSTOCK_FAILPOINT="bucket.chunk_synced=kill@2").begin("videos/a")
        first = bucket.put(session, CONTENT[:QUANTUM], f"bytes 0-{QUANTUM - 1}/{TOTAL}")
        assert first.headers["range"] == f"bytes=0-{QUANTUM - 1}"
        with pytest.raises(httpx.TransportError):
            bucket.put(session, CONTENT[QUANTUM : 3 * QUANTUM], f"bytes {QUANTUM}-{3 * QUANTUM - 1}/{TOTAL}")
        assert bucket.died()
        bucket.start()
        have = int(bucket.asked(session, TOTAL).headers["range"].rpartition("-")[2]) + 1
        assert have >= QUANTUM
        done = bucket.put(session, CONTENT[have:], f"bytes {have}-{TOTAL - 1}/{TOTAL}")
        assert done.status_code == 200
        assert stored(bucket, "videos/a") == CONTENT
        until(lambda: told.heard, "it was told")
        assert told.names() == ["videos/a"]


class TestWhileASessionIsCancelled:
    def test_it_is_gone_with_its_bytes(self, bucket):
        session = bucket.start(PENSTOCK_FAILPOINT="bucket.session_erased=kill").begin("videos/a", most=TOTAL)
        bucket.put(session, CONTENT[:QUANTUM], f"bytes 0-{QUANTUM - 1}/{TOTAL}")
        with pytest.raises(httpx.TransportError):
            bucket.http.delete(session)
        assert bucket.died()
        bucket.start()
        assert bucket.asked(session).status_code == 404
        assert not [path for folder in ("data", "sessions") for path in (bucket.directory / folder).iterdir()]


class TestWhileAnObjectIsMade:
    @pytest.mark.parametrize("where", ["bucket.bytes_synced", "bucket.before_object", "bucket.record_written=kill@2"])
    def test_before_it_is_there_it_can_be_finished(self, bucket, told, where):
        session = bucket.start(PENSTOCK_FAILPOINT=where if "=" in where else f"{where}=kill").begin("videos/a")
        with pytest.raises(httpx.TransportError):
            bucket.put(session, CONTENT)
        assert bucket.died()
        bucket.start()
        assert not bucket.official().bucket(NAME).blob("videos/a").exists()
        assert not told.heard
        have = int(bucket.asked(session, TOTAL).headers["range"].rpartition("-")[2]) + 1
        assert have == 4 * QUANTUM
        assert bucket.put(session, CONTENT[have:], f"bytes {have}-{TOTAL - 1}/{TOTAL}").status_code == 200
        assert stored(bucket, "videos/a") == CONTENT
        until(lambda: told.heard, "it was told")

    @pytest.mark.parametrize("where", ["bucket.after_object=kill", "bucket.record_written=kill@3"])
    def test_after_it_is_there_the_sender_finds_out_and_it_is_told(self, bucket, told, where):
        session = bucket.start(PENSTOCK_FAILPOINT=where).begin("videos/a")
        with pytest.raises(httpx.TransportError):
            bucket.put(session, CONTENT)
        assert bucket.died()
        bucket.start()
        assert bucket.asked(session, TOTAL).status_code == 200
        assert stored(bucket, "videos/a") == CONTENT
        until(lambda: told.heard, "it was told")
        assert set(told.names()) == {"videos/a"}
        assert bucket.send("videos/a", b"another").status_code == 412


class TestWhileItIsTold:
    def test_it_is_told_again(self, bucket, told):
        bucket.start(PENSTOCK_FAILPOINT="bucket.notice_heard=kill").send("videos/a", CONTENT)
        assert bucket.died()
        bucket.start()
        until(lambda: len(told.heard) >= 2, "it was told again")
        assert len({each["message"]["messageId"] for each in told.heard}) == 1


class TestStopping:
    @pytest.fixture
    def bucket(self, tmp_path: Path) -> Iterator[BucketProcess]:
        process = BucketProcess(tmp_path / "home", whole=True)
        yield process
        process.close()

    def test_in_good_order_and_without_a_secret_in_the_log_or_on_disk(self, bucket):
        bucket.start(PENSTOCK_LOG_LEVEL="debug")
        url = bucket.signed("videos/a")
        session = bucket.begin("videos/a")
        bucket.put(session, CONTENT[:QUANTUM], f"bytes 0-{QUANTUM - 1}/{TOTAL}")
        bucket.http.post(url, headers={"x-goog-resumable": "start", "x-goog-acl": "private"})
        bucket.asked(session + "x")
        assert bucket.end() == 0
        log = bucket.log.read_text()
        assert "bucket.stopped" in log
        for secret in ("upload_id", "X-Goog-Signature", session.rpartition("=")[2], "PRIVATE KEY"):
            assert secret not in log
        for path in bucket.directory.rglob("*"):
            assert path.is_dir() or session.rpartition("=")[2].encode() not in path.read_bytes()

        for name in ("service-account.json", "push-key.pem"):
            assert (bucket.directory / name).stat().st_mode & 0o777 == 0o600
