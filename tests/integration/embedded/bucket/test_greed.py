"""Senders who want more of a bucket than is theirs, or contradict themselves."""

import pytest
from tests.support.bucket import QUANTUM

from penstock.embedded.bucket import datafile

CONTENT = b"a film" * 100


class TestManySessions:
    def test_of_too_many_for_one_object_the_oldest_is_forgotten(self, bucket, name):
        other = bucket.begin(f"{name}-other")
        sessions = [bucket.begin(name) for _ in range(17)]
        assert [bucket.asked(each).status_code for each in sessions] == [404] + [308] * 16
        assert bucket.asked(other).status_code == 308

    def test_those_that_have_ended_are_not_counted(self, bucket, name):
        first = bucket.begin(name)
        for _ in range(16):
            bucket.http.delete(bucket.begin(name))
        assert bucket.put(first, CONTENT).status_code == 200
        assert bucket.asked(first).status_code == 200


class TestTheDisk:
    def test_it_is_never_filled_up_and_what_came_before_is_kept(self, bucket, name, monkeypatch):
        content, session = bytes(QUANTUM + 5), bucket.begin(name)
        rest = (session, content[QUANTUM:], f"bytes {QUANTUM}-{QUANTUM + 4}/{QUANTUM + 5}")
        assert bucket.put(session, content[:QUANTUM], f"bytes 0-{QUANTUM - 1}/{QUANTUM + 5}").status_code == 308
        with monkeypatch.context() as full:
            full.setattr(datafile, "SPARE_BYTES", 2**62)
            assert bucket.put(*rest).status_code == 503
        assert bucket.asked(session).headers["range"] == f"bytes=0-{QUANTUM - 1}"
        assert bucket.put(*rest).status_code == 200


class TestContradictions:
    @pytest.mark.parametrize("said", ["bytes 5-*/3", "bytes 3-2/10", "bytes 0-9/5"])
    def test_a_range_that_cannot_be_is_refused_and_changes_nothing(self, bucket, name, said):
        session = bucket.begin(name)
        assert bucket.put(session, b"", said).status_code == 400
        assert bucket.put(session, CONTENT).status_code == 200
