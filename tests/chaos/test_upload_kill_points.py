"""A server killed exactly between two lines of an upload, or stopped in the middle: what is lost, what is doubled?"""

import contextlib
import http.client
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.chaos.stage import Stage
from tests.support.bucket import until
from tests.support.gateway import Gateway
from tests.support.tus import Answer, Tus, checksum

FIRST, SECOND = b"a" * 7_000, b"b" * 5_000  # in one piece each: points are passed a known number of times
WHOLE = FIRST + SECOND
COUNTED = {"upload.written": False, "upload.synced": False, "upload.recorded": True}


@pytest.fixture
def servers_of(stage: Stage) -> Iterator[Callable[..., Gateway]]:
    """Makes servers that share a directory; they end with the test."""
    made: list[Gateway] = []

    def make(**settings: str) -> Gateway:
        made.append(Gateway(stage.home, stage.postgres.url, stage.redis.url, **settings))
        return made[-1]

    yield make
    for one in made:
        one.kill()


def dies(server: Gateway, action: Callable[[], Answer]) -> None:
    """The request is never answered, as the process is killed at its failpoint."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        answer = action()
        raise AssertionError(f"answered {answer.status} instead")
    assert server.process is not None
    assert server.process.wait(20) == -signal.SIGKILL
    server.start()


class TestKilledAt:
    @pytest.mark.parametrize(
        ("point", "times", "chunk", "checked"),
        [
            ("upload.written", 1, 1, False),
            ("upload.written", 2, 2, False),
            ("upload.written", 1, 1, True),
            ("upload.synced", 2, 2, False),
            ("upload.synced", 1, 1, True),
            ("upload.recorded", 1, 1, False),
            ("upload.recorded", 2, 2, True),
        ],
    )
    def test_the_offset_tells_the_truth_and_the_client_goes_on(
        self, servers_of, point: str, times: int, chunk: int, checked: bool
    ):
        server = servers_of()
        server.start(PENSTOCK_FAILPOINT=f"{point}=kill@{times}")
        tus = server.caller()
        path, offset = tus.created(len(WHOLE)), 0
        for number, body in enumerate((FIRST, SECOND), 1):
            header = {"upload_checksum": checksum(body)} if checked else {}
            if number == chunk:
                dies(server, lambda at=offset, what=body, more=header: tus.patch(path, at, what, **more))
                offset += len(body) if COUNTED[point] else 0
                assert tus.head(path).offset == offset
                assert server.bytes_of(path) == WHOLE[:offset]
            if not COUNTED[point] or number != chunk:
                offset = tus.patch(path, offset, body, **header).offset
        assert (offset, server.bytes_of(path), server.row(path)["status"]) == (len(WHOLE), WHOLE, "FINISHED")

    @pytest.mark.parametrize("point", ["upload.join_reserved", "upload.joined"])
    def test_joining_can_be_asked_for_again_and_the_reservation_ends(self, servers_of, point: str):
        room = 3 * len(WHOLE)  # for the parts, one whole, and not two
        server = servers_of(GW_TUS_BYTES_PER_MERCHANT=str(room))
        server.start(PENSTOCK_FAILPOINT=f"{point}=kill")
        tus = server.caller(merchant := f"m-{point}")
        parts = [tus.uploaded(body, upload_concat="partial", upload_metadata=None) for body in (FIRST, SECOND)]
        join = {"upload_concat": f"final;{' '.join(parts)}"}
        dies(server, lambda: tus.create(**join))
        [left] = server.query("select * from tus_uploads where merchant_id = %s and concat <> 'partial'", merchant)
        assert (left["status"], left["received"], left["reserved"]) == ("UPLOADING", 0, len(WHOLE))
        path = tus.created(**join)
        assert server.bytes_of(path) == WHOLE
        assert tus.create(**join).refusal == (429, "UPLOAD_SLOTS_FULL")
        with server.scheduler():
            server.expire(left["upload_id"])
            until(lambda: server.file_of(left["upload_id"]) is None, "its bytes are gone")
        assert server.bytes_of(tus.created(**join)) == WHOLE

    def test_what_was_reserved_for_a_deferred_length_is_gone_on_with(self, servers_of):
        server = servers_of(GW_TUS_BYTES_PER_MERCHANT=str(len(WHOLE) + 4096))
        server.start(PENSTOCK_FAILPOINT="upload.written=kill@1")
        tus = server.caller("m-deferred")
        path = tus.created()
        dies(server, lambda: tus.patch(path, 0, FIRST))
        assert (server.row(path)["received"], server.row(path)["reserved"]) == (0, len(FIRST))
        assert tus.patch(path, 0, FIRST).offset == len(FIRST)
        assert tus.patch(path, len(FIRST), SECOND, upload_length=str(len(WHOLE))).offset == len(WHOLE)
        assert server.row(path)["reserved"] == len(WHOLE)

    def test_a_cancelled_upload_stays_cancelled(self, servers_of):
        server = servers_of()
        server.start(PENSTOCK_FAILPOINT="upload.cancelled=kill")
        tus = server.caller()
        path = tus.uploaded(FIRST)
        dies(server, lambda: tus.delete(path))
        assert tus.head(path).status == 410
        assert tus.patch(path, len(FIRST)).status == 410


class TestAServerThatIsStopped:
    """SIGSTOP while it holds an upload: to others it is neither dead nor alive."""

    def test_another_takes_over_and_the_sleeper_changes_nothing_when_it_wakes(self, servers_of):
        settings = {"GW_TUS_COMMIT_SEC": "0.2"}
        sleeper, other = servers_of(**settings).start(), servers_of(**settings).start()
        # On a busy machine the sleeper may happen to have let go of the file when it is stopped: try again then.
        assert any(self._was_locked_out_for_a_while(sleeper, other) for _ in range(4))

    def _was_locked_out_for_a_while(self, sleeper: Gateway, other: Gateway) -> bool:
        tus = sleeper.caller()
        path = tus.created(len(WHOLE))
        with tus.hold(path, len(WHOLE)) as wire:
            for _ in range(60):  # busy, so that it holds on to the file
                wire.send(b"a" * 100)
                time.sleep(0.005)
            assert sleeper.process is not None
            sleeper.process.send_signal(signal.SIGSTOP)
            try:
                refused = self._finish(other.caller(), path)
                assert other.bytes_of(path) == WHOLE
            finally:
                sleeper.process.send_signal(signal.SIGCONT)
            with contextlib.suppress(OSError):
                wire.send(b"z" * (len(WHOLE) - 6000))
            with contextlib.suppress(OSError, http.client.HTTPException):
                assert 400 <= wire.answer().status < 500
        assert other.bytes_of(path) == WHOLE
        assert sleeper.caller().head(path).offset == len(WHOLE)
        return refused > 0

    def _finish(self, tus: Tus, path: str) -> int:
        """Ask and send as clients do; returns how often the upload was locked."""
        deadline, refused = time.monotonic() + 30, 0
        while True:
            offset = tus.head(path).offset
            assert offset <= 6000
            answer = tus.patch(path, offset, WHOLE[offset:])
            if answer.status == 204:
                return refused
            assert answer.status in (409, 423), answer.status
            assert time.monotonic() < deadline, "nobody took over"
            refused += answer.status == 423
            time.sleep(0.1)
