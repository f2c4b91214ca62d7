"""Phones that send to a bucket of S3's kind, as a whole: parts, going on, the end, and the check of what arrived."""

import signal
from collections.abc import Iterator

import httpx
import pytest
from tests.support import s3
from tests.support.direct_system import DirectSystem
from tests.support.phones import Recording, recorded

MiB = 1024**2


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3.s3_server() as address:
        yield address


@pytest.fixture(scope="module")
def bucket_settings(bucket: str) -> dict[str, str]:
    return {
        "DIRECT_BUCKET_URL": f"s3://{s3.BUCKET}", "DIRECT_ENDPOINT": bucket, "DIRECT_PART_BYTES": str(5 * MiB),
        "DIRECT_S3_ACCESS_KEY": "test", "DIRECT_S3_SECRET_KEY": "test",
    }  # fmt: skip


@pytest.fixture
def raw(bucket: str):
    made = s3.client(bucket)
    yield made
    made.close()


@pytest.fixture
def film() -> Recording:
    return recorded(6 * MiB)  # two parts


def is_complete(system: DirectSystem, raw, upload_id: str, film: Recording) -> None:
    row = system.until_ended(upload_id)
    assert (row["status"], row["md5_hash"], row["size_bytes"]) == ("completed", film.md5, film.size)
    assert system.told(upload_id).count("video.upload.completed") == 1
    assert raw.get_object(Bucket=s3.BUCKET, Key=row["object_name"])["Body"].read() == film.content
    [video] = system.serve.query("select * from catalog.videos where video_id = %s", row["video_id"])
    assert (video["status"], video["container"]) == ("processing", "mp4")
    assert video["raw_file_reference"] == f"s3://{s3.BUCKET}/{row['object_name']}"


class TestInParts:
    def test_a_film_goes_on_after_the_server_was_killed_and_is_complete_once(self, system, raw, phone, film):
        opened = phone.announce(film)
        upload_id = opened["upload_id"]
        assert (opened["resumable_init_url"], opened["part_bytes"]) == (None, 5 * MiB)
        phone.put_parts(phone.parts(upload_id, 2), film.content)
        assert phone.look(upload_id)["status"] == "uploading"
        missing = phone.complete(upload_id)
        assert (missing.status_code, missing.json()["code"]) == (409, "DIRECT_PARTS_MISSING")
        system.serve.kill()
        system.serve.start(PENSTOCK_FAILPOINT="direct.parts_completed=kill")
        offer = phone.parts(upload_id)
        assert [part["number"] for part in offer["present"]] == [2]
        assert [each["number"] for each in offer["addresses"]] == [1]
        phone.put_parts(offer, film.content)
        with pytest.raises(httpx.TransportError):
            phone.complete(upload_id)
        assert system.serve.process.wait(20) == -signal.SIGKILL
        system.serve.start()
        assert phone.complete(upload_id).status_code == 200
        is_complete(system, raw, upload_id, film)
        assert phone.complete(upload_id).json()["status"] == "completed"
        assert phone.announce(film)["already_completed"]

    def test_what_is_there_is_not_overwritten_and_wrong_bytes_are_kept_aside(self, system, raw, phone, film):
        opened = phone.announce(film)
        upload_id, name = opened["upload_id"], opened["object_name"]
        phone.put_parts(phone.parts(upload_id), film.content)
        raw.put_object(Bucket=s3.BUCKET, Key=name, Body=b"somebody was faster", ContentType="video/mp4")
        assert phone.complete(upload_id).status_code == 200
        row = system.until_ended(upload_id)
        assert (row["status"], row["error_code"]) == ("failed", "MD5_MISMATCH")
        assert raw.get_object(Bucket=s3.BUCKET, Key=row["aside_name"])["Body"].read() == b"somebody was faster"
        assert phone.announce(film)["upload_id"] == upload_id
        phone.put_parts(phone.parts(upload_id), film.content)
        assert phone.complete(upload_id).status_code == 200
        is_complete(system, raw, upload_id, film)
        assert raw.list_multipart_uploads(Bucket=s3.BUCKET).get("Uploads", []) == []

    def test_what_was_put_together_without_a_word_is_found(self, system, raw, phone, film):
        """The server died between the bucket and its own record, and the phone never asked again."""
        opened = phone.announce(film)
        phone.put_parts(phone.parts(opened["upload_id"]), film.content)
        multipart, name = system.row(opened["upload_id"])["multipart_id"], opened["object_name"]
        listed = raw.list_parts(Bucket=s3.BUCKET, Key=name, UploadId=multipart)["Parts"]
        parts = [{"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in listed]
        raw.complete_multipart_upload(Bucket=s3.BUCKET, Key=name, UploadId=multipart, MultipartUpload={"Parts": parts})
        system.look_now(opened["upload_id"])
        is_complete(system, raw, opened["upload_id"], film)

    def test_parts_that_nobody_puts_together_are_let_go(self, system, raw, phone, film):
        opened = phone.announce(film)
        phone.put_parts(phone.parts(opened["upload_id"], 1), film.content)
        system.look_now(opened["upload_id"], days_later=9)
        row = system.until_ended(opened["upload_id"])
        assert (row["status"], row["error_code"]) == ("failed", "SESSION_EXPIRED")
        assert raw.list_multipart_uploads(Bucket=s3.BUCKET).get("Uploads", []) == []
        phone.announce(film)
        phone.put_parts(phone.parts(opened["upload_id"]), film.content)
        assert phone.complete(opened["upload_id"]).status_code == 200
        is_complete(system, raw, opened["upload_id"], film)
