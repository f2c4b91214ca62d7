"""A bucket that takes parts: the same promises as of one that takes sessions."""

import asyncio
import signal
import subprocess
import traceback
from dataclasses import replace
from functools import partial

import pytest
from tests.support import programs, s3
from tests.support.parting import PHONE, attended, send
from tests.support.shelf import md5_of

from penstock.kernel import error_codes
from penstock.kernel.clock import SystemClock
from penstock.kernel.db import fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Role
from penstock.kernel.queue import Queue
from penstock.kernel.settings import SettingsError
from penstock.uploads.direct import parts
from penstock.uploads.direct.adapters import open_bucket, open_other
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.opening import Wish, open_upload
from penstock.uploads.direct.ports import PartBucket
from penstock.uploads.direct.settings import DirectSettings

MiB = 1024**2
FILM = b"a film in parts " * (6 * MiB // 16)  # two parts of 5 MiB and less
WISH = Wish("holiday.mp4", len(FILM), "video/mp4", md5_of(FILM), 42)


@pytest.fixture(scope="module")
def server():
    with s3.s3_server() as address:
        yield address


@pytest.fixture(scope="module")
def settings(server):
    return DirectSettings(
        bucket_url=f"s3://{s3.BUCKET}", endpoint=server, s3_access_key="test", s3_secret_key="test", part_bytes=5 * MiB
    )


@pytest.fixture(scope="module")
def client(server):
    return s3.client(server)


@pytest.fixture
def raw(client):
    """The bucket as its owner sees it; empty before each test."""
    for each in client.list_objects_v2(Bucket=s3.BUCKET).get("Contents", []):
        client.delete_object(Bucket=s3.BUCKET, Key=each["Key"])
    for each in client.list_multipart_uploads(Bucket=s3.BUCKET).get("Uploads", []):
        client.abort_multipart_upload(Bucket=s3.BUCKET, Key=each["Key"], UploadId=each["UploadId"])
    return client


@pytest.fixture(scope="module")
async def shared_bucket(settings):
    opened = open_bucket(settings, SystemClock())
    yield opened
    await opened.close()


@pytest.fixture
def bucket(shared_bucket, raw):
    return shared_bucket


@pytest.fixture
def desk(database, bucket, settings, redis_client, keys):
    return DirectDesk(database, bucket, settings, SystemClock(), Queue(redis_client, keys), owner="w-1")


@pytest.fixture
async def upload(desk):
    opened = await open_upload(desk, PHONE, WISH)
    assert opened.start is None
    assert not opened.already_completed
    return opened.row


async def _row(desk):
    async with desk.database.transaction() as tx:
        [row] = await fetch_all(tx, "select *, due_at <= now() as is_due from catalog.uploads")
    return row


async def _change(desk, assignments):
    async with desk.database.transaction() as tx:
        await tx.execute(f"update catalog.uploads set {assignments}")


def _begun(raw):
    return raw.list_multipart_uploads(Bucket=s3.BUCKET).get("Uploads", [])


def _put(raw, name, content, content_type="video/mp4"):
    raw.put_object(Bucket=s3.BUCKET, Key=name, Body=content, ContentType=content_type)


async def _refused(awaitable):
    with pytest.raises(PenstockError) as refused:
        await awaitable
    shown = "".join(traceback.format_exception(refused.value)) + repr(refused.value.details)
    assert "X-Amz-Signature" not in shown
    return refused.value


class TestSending:
    async def test_a_film_in_two_parts_is_complete_when_its_md5_is_right(self, desk, bucket, upload):
        key = str(upload["upload_id"])
        offer = await parts.next_parts(desk, PHONE, key, None)
        assert (offer.part_bytes, offer.total, [each.number for each in offer.addresses]) == (5 * MiB, 2, [1, 2])
        assert (await _row(desk))["status"] == "uploading"
        await send(offer, FILM)
        answer = await parts.complete(desk, PHONE, key)
        assert answer["status"] == "uploading"
        assert (await _row(desk))["is_due"]
        assert (await attended(desk))["status"] == "completed"
        row = await parts.complete(desk, PHONE, key)
        assert (row["status"], row["md5_hash"], row["size_bytes"]) == ("completed", md5_of(FILM), len(FILM))
        assert (await open_upload(desk, PHONE, WISH)).already_completed

    async def test_it_goes_on_where_it_was(self, desk, upload):
        key = str(upload["upload_id"])
        await send(await parts.next_parts(desk, PHONE, key, [2]), FILM)
        offer = await parts.next_parts(desk, PHONE, key, None)
        assert [(each.number, each.size) for each in offer.present] == [(2, MiB)]
        assert [each.number for each in offer.addresses] == [1]

    async def test_ten_who_begin_at_once_begin_one(self, desk, raw, upload):
        key = str(upload["upload_id"])
        await asyncio.gather(*(parts.next_parts(desk, PHONE, key, None) for _ in range(10)))
        [begun] = _begun(raw)
        assert begun["UploadId"] == (await _row(desk))["multipart_id"]

    async def test_a_size_that_is_not_known_gets_addresses_for_more(self, desk):
        row = (await open_upload(desk, PHONE, replace(WISH, size_bytes=0))).row
        offer = await parts.next_parts(desk, PHONE, str(row["upload_id"]), None)
        assert offer.total is None
        assert [each.number for each in offer.addresses] == list(range(1, 11))
        assert {s3.signed(each.start.url, "SignedHeaders") for each in offer.addresses} == {"host"}

    async def test_of_a_size_that_is_not_known_there_are_no_more_parts_than_its_type_may_have(self, desk):
        row = (await open_upload(desk, PHONE, replace(WISH, size_bytes=0))).row
        most = -(-desk.settings.policies[0].largest // (5 * MiB))
        await parts.next_parts(desk, PHONE, str(row["upload_id"]), [most])
        refused = await _refused(parts.next_parts(desk, PHONE, str(row["upload_id"]), [most + 1]))
        assert refused.code is error_codes.REQUEST_INVALID

    async def test_wrong_bytes_fail_and_the_file_can_be_sent_again(self, desk, raw, upload):
        key = str(upload["upload_id"])
        await send(await parts.next_parts(desk, PHONE, key, None), FILM[::-1])
        await parts.complete(desk, PHONE, key)
        assert (await attended(desk))["error_code"] == "MD5_MISMATCH"
        assert (await _refused(parts.next_parts(desk, PHONE, key, None))).code is error_codes.SESSION_EXPIRED
        again = await open_upload(desk, PHONE, WISH)
        assert (again.row["upload_id"], again.row["status"]) == (upload["upload_id"], "pending")
        [aside] = [each["Key"] for each in raw.list_objects_v2(Bucket=s3.BUCKET)["Contents"]]
        assert aside.startswith(f"quarantine/{key}/")
        await send(await parts.next_parts(desk, PHONE, key, None), FILM)
        await parts.complete(desk, PHONE, key)
        assert (await attended(desk))["status"] == "completed"


class TestCompleting:
    async def test_not_before_all_parts_are_there(self, desk, upload):
        key = str(upload["upload_id"])
        assert (await _refused(parts.complete(desk, PHONE, key))).details["missing"] == [1]
        await send(await parts.next_parts(desk, PHONE, key, [1]), FILM)
        refused = await _refused(parts.complete(desk, PHONE, key))
        assert refused.code is error_codes.DIRECT_PARTS_MISSING
        assert (refused.details["missing"], refused.details["received"]) == ([2], 5 * MiB)

    async def test_not_with_a_part_that_is_too_small(self, desk, upload):
        key = str(upload["upload_id"])
        offer = await parts.next_parts(desk, PHONE, key, None)
        await send(replace(offer, part_bytes=MiB), FILM)
        assert (await _refused(parts.complete(desk, PHONE, key))).details["missing"] == [1]

    async def test_not_with_more_than_was_announced(self, desk, upload):
        key = str(upload["upload_id"])
        await send(await parts.next_parts(desk, PHONE, key, None), FILM + b"more")
        assert (await _refused(parts.complete(desk, PHONE, key))).code is error_codes.SIZE_MISMATCH

    async def test_nor_with_more_than_its_type_may_have_and_the_parts_are_removed(self, desk, bucket, raw, settings):
        small = settings.policies[0].model_copy(update={"largest": 6 * MiB})
        desk = replace(desk, settings=settings.model_copy(update={"policies": (small,)}))
        row = (await open_upload(desk, PHONE, replace(WISH, size_bytes=0))).row
        await send(await parts.next_parts(desk, PHONE, str(row["upload_id"]), None), bytes(7 * MiB))
        refused = await _refused(parts.complete(desk, PHONE, str(row["upload_id"])))
        assert (refused.code, _begun(raw)) == (error_codes.FILE_SIZE_EXCEEDED, [])

    async def test_an_object_that_is_there_is_not_overwritten(self, desk, bucket, raw, upload):
        key, name = str(upload["upload_id"]), upload["object_name"]
        offer = await parts.next_parts(desk, PHONE, key, None)
        await send(offer, FILM)
        _put(raw, name, b"somebody was faster")
        multipart_id = (await _row(desk))["multipart_id"]
        refused = await _refused(bucket.complete_parts(name, multipart_id, await bucket.parts(name, multipart_id)))
        assert refused.code is error_codes.DIRECT_OBJECT_EXISTS
        await parts.complete(desk, PHONE, key)
        assert raw.get_object(Bucket=s3.BUCKET, Key=name)["Body"].read() == b"somebody was faster"
        assert (await _row(desk))["is_due"]
        assert _begun(raw) == []
        assert (await attended(desk))["error_code"] == "MD5_MISMATCH"

    async def test_two_at_once_end_the_same(self, desk, upload):
        key = str(upload["upload_id"])
        await send(await parts.next_parts(desk, PHONE, key, None), FILM)
        await asyncio.gather(*(parts.complete(desk, PHONE, key) for _ in range(2)))
        assert (await attended(desk))["status"] == "completed"


class TestRefusals:
    async def test_another_user_finds_nothing(self, desk, upload):
        other = Caller("5a0c7f6e-1111-4222-8333-444455556667", "m-1", Role.UPLOADER)
        for asked in (parts.next_parts(desk, other, str(upload["upload_id"]), None),
                      parts.complete(desk, other, str(upload["upload_id"]))):  # fmt: skip
            assert (await _refused(asked)).code is error_codes.UPLOAD_NOT_FOUND

    async def test_numbers_that_cannot_be_are_refused(self, desk, upload):
        for numbers in ([0], [3], [-1], [1] * 101):
            refused = await _refused(parts.next_parts(desk, PHONE, str(upload["upload_id"]), numbers))
            assert refused.code is error_codes.REQUEST_INVALID

    async def test_a_signature_is_for_the_size_that_the_part_has(self, desk, upload):
        """A body of another length does not fit the signature: S3 refuses it before it reads it."""
        offer = await parts.next_parts(desk, PHONE, str(upload["upload_id"]), None)
        assert {s3.signed(each.start.url, "SignedHeaders") for each in offer.addresses} == {"content-length;host"}
        for number, size in enumerate([5 * MiB, len(FILM) - 5 * MiB], 1):
            made = [await desk.bucket.sign_part(upload["object_name"], "x", number, each) for each in (size, size + 1)]
            assert len({s3.signed(each.url, "Signature") for each in made}) == 2

    async def test_a_signature_is_for_one_part(self, desk, upload):
        [address] = (await parts.next_parts(desk, PHONE, str(upload["upload_id"]), [2])).addresses
        assert "partNumber=2" in address.start.url
        assert "X-Amz-Signature=" in address.start.url
        assert "X-Amz-Signature" not in repr(address)

    async def test_no_log_tells_what_is_signed_even_when_all_is_logged(self, desk, upload, database_url):
        code, said = _served(desk.settings, database_url, "next", str(upload["upload_id"]), "")
        assert code == 0, said
        assert "parting.begun" in said
        assert "ignature" not in said

    def test_half_a_key_is_refused(self, settings):
        with pytest.raises(SettingsError, match="DIRECT_S3_SECRET_KEY"):
            open_bucket(DirectSettings(bucket_url="s3://b", s3_access_key="a"), SystemClock())

    async def test_a_bucket_that_is_away_is_an_unavailable_store(self, raw):
        settings = DirectSettings(
            bucket_url="s3://absent", endpoint="http://127.0.0.1:9", s3_access_key="a", s3_secret_key="b"
        )
        bucket = open_bucket(settings, SystemClock())
        assert (await _refused(bucket.find("videos/x"))).code is error_codes.STORE_UNAVAILABLE
        await bucket.close()


class TestKilled:
    @pytest.mark.parametrize(
        ("deed", "point"),
        [("next", "parts_begun"), ("complete", "parts_completing"), ("complete", "parts_completed")],
    )
    async def test_who_asks_again_goes_on(self, desk, raw, upload, database_url, deed, point):
        key = str(upload["upload_id"])
        if deed == "complete":
            await send(await parts.next_parts(desk, PHONE, key, None), FILM)
        code, _ = _served(desk.settings, database_url, deed, key, f"direct.{point}=kill")
        assert code == -signal.SIGKILL
        assert len(_begun(raw)) == (0 if point == "parts_completed" else 1)
        if deed == "next":
            await send(await parts.next_parts(desk, PHONE, key, None), FILM)
        await parts.complete(desk, PHONE, key)
        assert (await _row(desk))["is_due"]
        assert _begun(raw) == []
        assert (await attended(desk))["status"] == "completed"

    async def test_parts_that_nobody_noted_are_let_go_of(self, desk, raw, upload):
        raw.create_multipart_upload(Bucket=s3.BUCKET, Key=upload["object_name"])
        await parts.let_go(desk, upload)
        assert _begun(raw) == []

    async def test_parts_that_were_let_go_of_are_begun_anew(self, desk, raw, upload):
        key = str(upload["upload_id"])
        await send(await parts.next_parts(desk, PHONE, key, [2]), FILM)
        await parts.let_go(desk, upload)
        assert (await _refused(parts.complete(desk, PHONE, key))).code is error_codes.DIRECT_PARTS_MISSING
        await send(await parts.next_parts(desk, PHONE, key, None), FILM)
        await parts.complete(desk, PHONE, key)
        assert (await attended(desk))["status"] == "completed"

    async def test_what_is_given_up_leaves_no_parts_behind(self, desk, raw, upload):
        key = str(upload["upload_id"])
        await send(await parts.next_parts(desk, PHONE, key, [2]), FILM)
        async with desk.database.transaction() as tx:
            await tx.execute("update catalog.uploads set opened_at = now() - interval '30 days', due_at = now()")
        assert (await attended(desk))["error_code"] == "SESSION_EXPIRED"
        assert _begun(raw) == []
        assert (await open_upload(desk, PHONE, WISH)).row["status"] == "pending"

    async def test_an_object_that_comes_while_a_worker_looks_is_not_forgotten(self, desk, upload):
        key = str(upload["upload_id"])
        await send(await parts.next_parts(desk, PHONE, key, None), FILM)
        async with desk.database.transaction() as tx:
            await tx.execute("update catalog.uploads set due_at = now() - interval '1 s'")
        find, asked = desk.bucket.find, asyncio.Event()

        async def slow(name):
            found = await find(name)
            if not asked.is_set():
                asked.set()
                await parts.complete(desk, PHONE, key)
            return found

        desk.bucket.find = slow
        try:
            assert (await attended(desk))["is_due"]
        finally:
            del desk.bucket.find
        assert (await attended(desk))["status"] == "completed"


class TestObjects:
    def test_it_takes_parts(self, bucket):
        assert isinstance(bucket, PartBucket)

    async def test_it_is_found_read_and_fetched(self, bucket, raw, tmp_path):
        assert await bucket.find("videos/x/y") is None
        _put(raw, "videos/x/y", FILM)
        found = await bucket.find("videos/x/y")
        assert (found.size, found.content_type, found.md5_hex) == (len(FILM), "video/mp4", None)
        assert await bucket.md5_of(found) == md5_of(FILM)
        await bucket.fetch(replace(found, etag=None), tmp_path / "film")
        assert (tmp_path / "film").read_bytes() == FILM

    async def test_another_in_its_place_is_not_taken_for_it(self, bucket, raw, tmp_path):
        _put(raw, "videos/x/y", FILM)
        found = await bucket.find("videos/x/y")
        _put(raw, "videos/x/y", b"another")
        for asked in (bucket.fetch(found, tmp_path / "film"), bucket.md5_of(found)):
            assert (await _refused(asked)).code is error_codes.NOT_FOUND
        await bucket.move_aside("videos/x/y", found.generation, "quarantine/u/1")
        assert [each["Key"] for each in raw.list_objects_v2(Bucket=s3.BUCKET)["Contents"]] == ["videos/x/y"]
        assert list(tmp_path.iterdir()) == []

    async def test_moved_aside_twice_it_is_there_once(self, bucket, raw):
        _put(raw, "videos/x/y", FILM)
        found = await bucket.find("videos/x/y")
        for _ in range(2):
            await bucket.move_aside("videos/x/y", found.generation, "quarantine/u/1")
        assert [each["Key"] for each in raw.list_objects_v2(Bucket=s3.BUCKET)["Contents"]] == ["quarantine/u/1"]


def _served(settings, database_url, deed, upload_id, failpoint):
    given = programs.environment(
        PENSTOCK_DATABASE_URL=database_url, PENSTOCK_FAILPOINT=failpoint, DIRECT_BUCKET_URL=settings.bucket_url,
        DIRECT_ENDPOINT=settings.endpoint, DIRECT_S3_ACCESS_KEY="test", DIRECT_S3_SECRET_KEY="test",
        DIRECT_PART_BYTES=str(int(settings.part_bytes)),
    )  # fmt: skip
    program = programs.start_python("-m", "tests.support.parting", deed, upload_id, env=given, stderr=subprocess.PIPE)
    _, said = program.communicate(timeout=60)
    return program.returncode, said


class TestABucketThatWasInUseBefore:
    @pytest.fixture
    async def moved(self, desk, settings):
        others = settings.model_copy(update={"bucket_url": "s3://fresh"})
        made = replace(
            desk, bucket=open_bucket(others, SystemClock()), settings=others,
            open_other=partial(open_other, others, SystemClock()), _others={},
        )  # fmt: skip
        yield made
        await made.close()

    async def test_a_wrong_object_is_moved_aside_there(self, desk, moved, raw, upload):
        _put(raw, upload["object_name"], b"something else")
        await _change(desk, "due_at = now()")
        assert (await attended(desk))["aside_generation"] is not None
        row = await attended(moved)
        assert (row["bucket"], row["aside_generation"], row["due_at"]) == (s3.BUCKET, None, None)
        assert raw.get_object(Bucket=s3.BUCKET, Key=row["aside_name"])["Body"].read() == b"something else"

    async def test_one_that_is_no_more_leaves_it_to_be_done(self, desk, moved, raw, upload):
        _put(raw, upload["object_name"], b"something else")
        await _change(desk, "due_at = now()")
        await attended(desk)
        await _change(desk, "bucket = 'removed'")
        row = await attended(moved)
        assert row["aside_generation"] is not None
        assert row["aside_name"] is None
        assert row["looks"] == 1
