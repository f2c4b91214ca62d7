"""Clients that Google wrote, as their users run them."""

import io
import json

import google_crc32c
import pytest
from google.api_core.exceptions import NotFound, PreconditionFailed
from google.auth.transport.requests import AuthorizedSession
from google.resumable_media.requests import ResumableUpload
from tests.support.bucket import NAME, QUANTUM, some_bytes

CONTENT = some_bytes(2 * QUANTUM + 321)


@pytest.fixture(autouse=True)
def _no_background_calls(monkeypatch):
    monkeypatch.setenv("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")


@pytest.fixture
def there(bucket):
    return bucket.official().bucket(NAME)


class TestGoogleCloudStorage:
    def test_a_small_object_at_once(self, there, name):
        blob = there.blob(name)
        blob.metadata = {"who": "me"}
        blob.upload_from_string(CONTENT, content_type="video/mp4", if_generation_match=0)
        found = there.get_blob(name)
        assert found.download_as_bytes() == CONTENT
        assert (found.size, found.content_type, found.metadata) == (len(CONTENT), "video/mp4", {"who": "me"})
        assert found.crc32c == google_crc32c_base64(CONTENT)

    def test_a_stream_in_chunks(self, there, name):
        blob = there.blob(name, chunk_size=QUANTUM)
        content = CONTENT * 17  # more than is sent at once
        blob.upload_from_file(io.BytesIO(content), content_type="video/mp4", if_generation_match=0)
        assert there.get_blob(name).download_as_bytes() == content

    def test_faults_in_the_middle_are_overcome(self, bucket, there, name):
        blob = there.blob(name, chunk_size=QUANTUM)
        bucket.faults.fail_after_bytes = 100_000
        bucket.faults.lost_answers = 1
        blob.upload_from_file(io.BytesIO(CONTENT), if_generation_match=0)
        assert there.get_blob(name).download_as_bytes() == CONTENT

    def test_an_object_that_is_there_already(self, there, name):
        there.blob(name).upload_from_string(b"one", if_generation_match=0)
        with pytest.raises(PreconditionFailed):
            there.blob(name).upload_from_string(b"two", if_generation_match=0)

    def test_a_range(self, there, name):
        there.blob(name).upload_from_string(CONTENT)
        assert there.blob(name).download_as_bytes(start=10, end=19, raw_download=True) == CONTENT[10:20]

    def test_lists_in_pages(self, bucket, there, name):
        for at in range(5):
            there.blob(f"{name}/{at}").upload_from_string(b"x")
        there.blob(f"{name}/deep/er").upload_from_string(b"x")
        pages = bucket.official().list_blobs(NAME, prefix=f"{name}/", page_size=2).pages
        assert [[blob.name[-1] for blob in page] for page in pages] == [["0", "1"], ["2", "3"], ["4", "r"]]
        flat = bucket.official().list_blobs(NAME, prefix=f"{name}/", delimiter="/")
        assert len(list(flat)) == 5
        assert flat.prefixes == {f"{name}/deep/"}

    def test_moving_aside(self, there, name):
        there.blob(name).upload_from_string(CONTENT, content_type="video/mp4")
        source = there.get_blob(name)
        target = there.blob(f"quarantine/{name}")
        target.rewrite(source, if_source_generation_match=source.generation, if_generation_match=0)
        with pytest.raises(PreconditionFailed):
            there.delete_blob(name, if_generation_match=source.generation + 1)
        there.delete_blob(name, if_generation_match=source.generation)
        assert there.get_blob(name) is None
        kept = there.get_blob(f"quarantine/{name}")
        assert kept.download_as_bytes() == CONTENT
        assert (kept.md5_hash, kept.content_type) == (source.md5_hash, "video/mp4")
        with pytest.raises(NotFound):
            there.delete_blob(name)

    def test_copying(self, there, name):
        there.blob(name).upload_from_string(b"x")
        there.copy_blob(there.blob(name), there, f"{name}-copy")
        assert there.get_blob(f"{name}-copy").download_as_bytes() == b"x"

    def test_the_bucket(self, bucket):
        assert bucket.official().get_bucket(NAME).name == NAME
        with pytest.raises(NotFound):
            bucket.official().get_bucket("another-one")

    def test_another_generation_is_not_there(self, there, name):
        there.blob(name).upload_from_string(b"x")
        assert there.blob(name, generation=5).exists() is False


class TestGoogleResumableMedia:
    @pytest.fixture
    def transport(self, bucket):
        return AuthorizedSession(bucket.account.with_scopes(["https://www.googleapis.com/auth/devstorage.read_write"]))

    def test_a_session_of_the_json_api_is_recovered(self, bucket, transport, name):
        url = f"{bucket.address}/upload/storage/v1/b/{NAME}/o?uploadType=resumable"
        upload = ResumableUpload(url, QUANTUM)
        upload.initiate(transport, io.BytesIO(CONTENT), {"name": name}, "video/mp4")
        upload.transmit_next_chunk(transport)
        upload._invalid = True
        upload.recover(transport)
        assert upload.bytes_uploaded == QUANTUM
        while not upload.finished:
            answer = upload.transmit_next_chunk(transport)
        assert answer.json()["name"] == name

    def test_a_session_that_a_phone_began_is_recovered(self, bucket, transport, name):
        upload = ResumableUpload("unused", QUANTUM)
        upload._resumable_url = bucket.begin(name)
        upload._stream, upload._content_type = io.BytesIO(CONTENT), "video/mp4"
        upload._total_bytes = len(CONTENT)
        upload.transmit_next_chunk(transport)
        upload._stream.seek(0)
        upload._invalid = True
        upload.recover(transport)
        assert upload.bytes_uploaded == upload._stream.tell() == QUANTUM
        while not upload.finished:
            upload.transmit_next_chunk(transport)
        assert bucket.official().bucket(NAME).blob(name).download_as_bytes() == CONTENT


class TestJsonSessions:
    def test_a_hash_that_was_announced_must_come_true(self, bucket, name):
        path = f"/upload/storage/v1/b/{NAME}/o?uploadType=resumable&name={name}"
        begun = bucket.api("POST", path, content=json.dumps({"md5Hash": "XUFAKrxLKna5cZ2REBfFkg=="}))
        assert begun.status_code == 200
        assert bucket.put(begun.headers["location"], b"other").status_code == 400
        begun = bucket.api("POST", path, content=json.dumps({"md5Hash": "XUFAKrxLKna5cZ2REBfFkg=="}))
        assert bucket.put(begun.headers["location"], b"hello").json()["size"] == "5"

    def test_a_length_that_was_announced_must_come_true(self, bucket, name):
        path = f"/upload/storage/v1/b/{NAME}/o?uploadType=resumable&name={name}"
        begun = bucket.api("POST", path, headers={"x-upload-content-length": "5"})
        assert bucket.put(begun.headers["location"], b"hell").status_code == 400
        assert bucket.put(begun.headers["location"], b"hello", "bytes 0-4/*").json()["contentType"]


def google_crc32c_base64(content: bytes) -> str:
    import base64

    return base64.b64encode(google_crc32c.Checksum(content).digest()).decode()
