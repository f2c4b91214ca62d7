"""Two servers over one of everything else: whatever is begun on one goes on on the other."""

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator

import pytest
from tests.support.following import completed
from tests.support.gateway import Gateway
from tests.support.instances import Merchant, Reading, revived, two_instances
from tests.support.jobs import fresh

Both = tuple[Gateway, Gateway]


@pytest.fixture(scope="module")
def both(postgres, redis_server) -> Iterator[Both]:
    with two_instances(postgres, redis_server) as made:
        yield made


@pytest.fixture(params=["from the first", "from the second"])
def here_and_there(both: Both, request) -> Both:
    """Each way round."""
    return both if request.param == "from the first" else (both[1], both[0])


@pytest.fixture
def mortal(both: Both) -> Iterator[Both]:
    with revived(*both):
        yield both


@pytest.fixture
def merchant() -> Merchant:
    return Merchant(f"m-{secrets.token_hex(6)}")


class TestUploading:
    def test_begun_here_continued_there_finished_here_again(self, here_and_there: Both, merchant: Merchant):
        (here, there), content = here_and_there, fresh() + secrets.token_bytes(300_000)
        path = merchant.tus(here.address).created(len(content))
        assert merchant.tus(here.address).patch(path, 0, content[:100_000]).offset == 100_000
        assert merchant.tus(there.address).head(path).offset == 100_000
        assert merchant.tus(there.address).patch(path, 100_000, content[100_000:200_000]).offset == 200_000
        assert merchant.tus(here.address).patch(path, 200_000, content[200_000:]).offset == len(content)
        assert here.row(path)["status"] == "FINISHED"
        assert here.bytes_of(path) == content

    def test_a_writer_that_stalls_here_is_taken_over_there_quickly(self, here_and_there: Both, merchant: Merchant):
        (here, there), content = here_and_there, secrets.token_bytes(140_000)
        half = len(content) // 2
        path = merchant.tus(here.address).created(len(content))
        with merchant.tus(here.address).hold(path, len(content), content[:half]) as stalled:
            began = time.monotonic()
            asked = _taken_over(merchant, there, path, content)
            waited = time.monotonic() - began
            print(f"taken over after {waited * 1000:.0f} ms, {asked} request(s)")  # noqa: T201
            assert waited < 2
            with contextlib.suppress(OSError):  # it may have been shown the door already
                stalled.send(b"\0" * half)
        assert here.bytes_of(path) == content


def _taken_over(merchant: Merchant, there: Gateway, path: str, content: bytes) -> int:
    """A client that comes back at once, and again until it is let in: how often it asked."""
    tus, half = merchant.tus(there.address), len(content) // 2
    for times in range(1, 200):
        answer = tus.patch(path, half, content[half:])
        if answer.status == 204:
            return times
        assert answer.status in (409, 423), answer.body  # not counted yet, or still held
        time.sleep(0.01)
    raise AssertionError("it was never let in")


class TestAJob:
    def test_created_and_cancelled_here_is_followed_to_its_end_there(self, here_and_there: Both, merchant: Merchant):
        here, there = here_and_there
        job_id = merchant.new_job(here.address, merchant.tus(there.address).uploaded(fresh(3)))
        with merchant.follow(there.address, job_id) as follower:
            assert follower.expect("snapshot").data["status"] == "UPLOADED"
            merchant.cancel(here.address, job_id)
            failed = follower.expect("job_failed")
            assert (failed.data["to"], failed.data["error_code"]) == ("CANCELLED", "JOB_CANCELLED")
            assert follower.rest() == []
            assert not follower.broken

    def test_one_request_to_each_makes_one_job(self, both: Both, merchant: Merchant):
        upload, made = merchant.tus(both[0].address).uploaded(fresh()), []
        threads = [
            threading.Thread(target=lambda one=one: made.append(merchant.new_job(one.address, upload))) for one in both
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert len(made) == 2
        assert len(set(made)) == 1


class TestADeath:
    def test_who_followed_through_it_goes_on_at_the_other_and_misses_nothing(self, mortal: Both, merchant: Merchant):
        here, there = mortal
        job_id = merchant.new_job(here.address, merchant.tus(here.address).uploaded(fresh(20)))
        with Reading(here.database_url, job_id) as reading, merchant.follow(here.address, job_id) as first:
            assert first.expect("snapshot").data["pages_by_status"] == {"PENDING": 20}
            reading.go(5)
            before = [first.expect("page_completed") for _ in range(3)]
            reading.go(10)  # some of these happen before the death, some during it, some after
            here.kill()
            before += [heard for heard in first.rest() if heard.name == "page_completed"]
            assert first.broken
            reading.go(5)
            with merchant.follow(there.address, job_id, first.last) as second:
                after = second.until(completed(20))
                merchant.cancel(there.address, job_id)
                after += second.rest()
        assert "snapshot" not in {heard.name for heard in after}  # its place was known: no need to begin anew
        pages = [heard.data["page_no"] for heard in before + after if heard.name == "page_completed"]
        assert pages == list(range(1, 21))
        assert after[-1].data["to"] == "CANCELLED"

    def test_an_upload_it_was_writing_goes_on_at_the_other(self, mortal: Both, merchant: Merchant):
        (here, there), content = mortal, secrets.token_bytes(400_000)
        path = merchant.tus(here.address).created(len(content))
        with merchant.tus(here.address).hold(path, len(content), content[:150_000]):
            deadline = time.monotonic() + 10
            while there.row(path)["received"] < 150_000:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            here.kill()
            kept = merchant.tus(there.address).head(path).offset
            assert kept == 150_000
            assert merchant.tus(there.address).patch(path, kept, content[kept:]).status == 204
        assert there.bytes_of(path) == content
