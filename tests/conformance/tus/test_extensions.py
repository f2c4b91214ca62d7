"""Expiration, checksum, termination."""

import re
import time
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import pytest
from tests.conformance.tus.test_core import UNKNOWN
from tests.support.gateway import Gateway
from tests.support.tus import Tus, checksum, encoded, id_of

HTTP_DATE = re.compile(r"(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")


def age(gateway: Gateway, path: str, by: str) -> None:
    """Move the upload's end nearer, or behind us."""
    moved = "update tus_uploads set expires_at = now() + %s::interval where upload_id = %s"
    gateway.query(moved, by, id_of(path))


class TestExpiration:
    def test_an_unfinished_upload_says_when_it_ends(self, tus: Tus):
        made = tus.create(6)
        path = made["Location"] or ""
        for answer in (made, tus.patch(path, 0, b"abc"), tus.head(path)):
            assert HTTP_DATE.fullmatch(answer["Upload-Expires"] or ""), answer["Upload-Expires"]
            left = parsedate_to_datetime(answer["Upload-Expires"] or "") - datetime.now(UTC)
            assert timedelta(hours=5) < left < timedelta(hours=7)

    def test_a_finished_one_does_not(self, tus: Tus):
        assert "Upload-Expires" not in tus.head(tus.uploaded(b"abc"))

    def test_going_on_moves_the_end_away(self, tus: Tus, gateway: Gateway):
        path = tus.created(6)
        age(gateway, path, "5 minutes")
        soon = parsedate_to_datetime(tus.head(path)["Upload-Expires"] or "")
        assert soon - datetime.now(UTC) < timedelta(minutes=6)
        later = parsedate_to_datetime(tus.patch(path, 0, b"abc")["Upload-Expires"] or "")
        assert later > soon + timedelta(hours=4)

    def test_an_expired_upload_is_410_and_its_bytes_are_gone(self, tus: Tus, gateway: Gateway, scheduler: None):
        path = tus.created(6)
        tus.patch(path, 0, b"abc")
        file = gateway.file_of(path)
        gateway.expire(path)
        assert tus.patch(path, 3, b"def").refusal == (410, "UPLOAD_GONE")
        answer = tus.head(path)
        assert answer.status == 410
        assert "Upload-Offset" not in answer
        assert file is not None
        deadline = time.monotonic() + 10
        while file.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not file.exists()


class TestChecksum:
    @pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
    def test_a_right_one_is_204(self, tus: Tus, gateway: Gateway, algorithm: str):
        path = tus.created(11)
        answer = tus.patch(path, 0, b"hello world", upload_checksum=checksum(b"hello world", algorithm))
        assert (answer.status, answer.offset) == (204, 11)
        assert gateway.bytes_of(path) == b"hello world"

    @pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
    def test_a_wrong_one_is_460_and_the_chunk_does_not_count(self, tus: Tus, gateway: Gateway, algorithm: str):
        path = tus.created(11)
        tus.patch(path, 0, b"hello ")
        answer = tus.patch(path, 6, b"wurld", upload_checksum=checksum(b"world", algorithm))
        assert answer.refusal == (460, "CHECKSUM_FAILED")
        assert tus.head(path).offset == 6
        assert gateway.row(path)["status"] == "UPLOADING"
        assert tus.patch(path, 6, b"world", upload_checksum=checksum(b"world", algorithm)).status == 204
        assert gateway.bytes_of(path) == b"hello world"

    def test_a_wrong_one_over_a_large_body_leaves_the_file_as_it_was(self, tus: Tus, gateway: Gateway):
        content = bytes(3_000_001)
        path = tus.created(3 + len(content))
        tus.patch(path, 0, b"abc")
        assert tus.patch(path, 3, content, upload_checksum=checksum(b"other")).status == 460
        assert gateway.bytes_of(path) == b"abc"
        assert tus.patch(path, 3, content, upload_checksum=checksum(content)).status == 204

    @pytest.mark.parametrize("algorithm", ["md5", "crc32", "SHA1", "sha512", "rot13"])
    def test_an_unknown_algorithm_is_400_and_the_chunk_does_not_count(self, tus: Tus, algorithm: str):
        path = tus.created(3)
        answer = tus.patch(path, 0, b"abc", upload_checksum=f"{algorithm} {encoded(b'x' * 20)}")
        assert answer.refusal == (400, "CHECKSUM_UNSUPPORTED")
        assert tus.head(path).offset == 0

    @pytest.mark.parametrize("value", ["", "sha1", "sha1 ", "sha1 not-base64!", "sha1 ä", f"sha1 {encoded(b'short')}"])
    def test_a_malformed_one_is_refused_and_the_chunk_does_not_count(self, tus: Tus, value: str):
        path = tus.created(3)
        assert tus.patch(path, 0, b"abc", upload_checksum=value).status in (400, 460)
        assert tus.head(path).offset == 0

    def test_an_empty_chunk_has_one_too(self, tus: Tus):
        path = tus.created(3)
        assert tus.patch(path, 0, upload_checksum=checksum(b"")).status == 204
        assert tus.patch(path, 0, upload_checksum=checksum(b"x")).status == 460

    def test_names_of_algorithms_are_lower_case(self, tus: Tus):
        named = tus.options()["Tus-Checksum-Algorithm"] or ""
        assert named.isascii()
        assert named == named.lower()


class TestTermination:
    @pytest.mark.parametrize("content", [b"abc", b"abcdef"], ids=["unfinished", "finished"])
    def test_a_delete_is_204_and_the_upload_is_gone_for_good(self, tus: Tus, gateway: Gateway, content: bytes):
        path = tus.created(6)
        tus.patch(path, 0, content)
        file = gateway.file_of(path)
        answer = tus.delete(path)
        assert (answer.status, answer.body) == (204, b"")
        assert tus.head(path).status == 410
        assert "Upload-Offset" not in tus.head(path)
        assert tus.patch(path, len(content), b"x").refusal == (410, "UPLOAD_GONE")
        assert tus.delete(path).refusal == (410, "UPLOAD_GONE")
        assert file is not None
        assert not file.exists()

    def test_an_unknown_one_is_404(self, tus: Tus):
        assert tus.delete(UNKNOWN).refusal == (404, "UPLOAD_NOT_FOUND")

    def test_one_that_is_being_written_ends_too(self, tus: Tus):
        path = tus.created(6)
        with tus.begin_patch(path, 0, 6, b"abc"):
            answer = tus.delete(path)
            assert answer.status in (204, 423)
            if answer.status == 423:
                assert tus.head(path).status in (200, 204)
                assert tus.delete(path).status == 204
            assert tus.head(path).status == 410
