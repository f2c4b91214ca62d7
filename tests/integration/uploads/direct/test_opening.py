"""A phone announces a file."""

import asyncio
from dataclasses import replace

import pytest
from tests.support.shelf import CONTENT, ShelfBucket, md5_of

from penstock.kernel import error_codes
from penstock.kernel.db import fetch_all, fetch_one
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Role
from penstock.uploads.direct import metrics, videos
from penstock.uploads.direct.finishing import News, Outcome, judge
from penstock.uploads.direct.opening import open_upload, user_uuid
from penstock.uploads.direct.settings import VIDEO_POLICY, DirectSettings


async def _arrived(desk, facts, by="callback"):
    async with desk.database.transaction() as tx:
        outcome, _ = await judge(tx, desk.settings, News(facts, by, f"gs://{facts.bucket}/{facts.name}"))
        return outcome


_MOVED = VIDEO_POLICY.model_copy(update={"folder": "films"})


class TestOpening:
    async def test_ten_at_once_get_one_row_and_one_object_name(self, desk, phone, wish):
        opened = await asyncio.gather(*(open_upload(desk, phone, wish) for _ in range(10)))
        assert len({each.row["upload_id"] for each in opened}) == 1
        assert {each.row["object_name"] for each in opened} == {f"videos/{user_uuid(phone)}/{md5_of(CONTENT)}"}
        async with desk.database.transaction() as tx:
            rows = await fetch_all(tx, "select * from catalog.uploads")
            told = await fetch_all(tx, "select * from outbox_events where event_type = 'direct_upload.pending'")
        assert len(rows) == 1
        assert len(told) == 1

    async def test_a_complete_file_needs_no_bytes(self, desk, bucket, phone, wish):
        first = await open_upload(desk, phone, wish)
        await _arrived(desk, bucket.put(first.row["object_name"], CONTENT))
        again = await open_upload(desk, phone, wish)
        assert again.already_completed
        assert again.start is None
        assert again.row["upload_id"] == first.row["upload_id"]

    async def test_a_complete_file_is_known_also_while_nothing_can_be_signed(self, desk, bucket, phone, wish):
        first = await open_upload(desk, phone, wish)
        await _arrived(desk, bucket.put(first.row["object_name"], CONTENT))
        bucket.is_away = True
        assert (await open_upload(desk, phone, wish)).already_completed

    async def test_an_address_is_of_the_name_that_the_upload_has(self, desk, phone, wish):
        """Its policy has another folder by now."""
        first = await open_upload(desk, phone, wish)
        elsewhere = replace(desk, settings=desk.settings.model_copy(update={"policies": (_MOVED,)}))
        again = await open_upload(elsewhere, phone, wish)
        assert again.row["object_name"] == first.row["object_name"]
        assert first.row["object_name"] in again.start.url

    @pytest.mark.parametrize("user", ["ming", "5a0c7f6e-1111-4222-8333-444455556666"])
    async def test_a_user_has_another_id_for_each_merchant(self, user):
        one, other = (Caller(user, merchant, Role.UPLOADER) for merchant in ("m-1", "m-2"))
        assert user_uuid(one) == user_uuid(one)
        assert user_uuid(one) != user_uuid(other)

    async def test_another_spelling_of_a_uuid_is_another_user(self, phone):
        assert user_uuid(replace(phone, user_id=f"urn:uuid:{phone.user_id}")) != user_uuid(phone)
        assert user_uuid(replace(phone, user_id=phone.user_id.replace("-", ""))) != user_uuid(phone)
        assert user_uuid(replace(phone, user_id=phone.user_id.upper())) == user_uuid(phone)

    async def test_asking_again_long_after_makes_it_wait_longer(self, desk, phone, wish):
        async def asked_again(minutes):
            async with desk.database.transaction() as tx:
                await tx.execute("update catalog.uploads set opened_at = now() - %s * interval '1 minute'", (minutes,))
            return (await open_upload(desk, phone, wish)).row

        first = (await open_upload(desk, phone, wish)).row
        assert (await asked_again(14))["opened_at"] < first["opened_at"]  # the last address may still be used
        again = await asked_again(60)
        assert again["opened_at"] > first["opened_at"]
        assert (again["opened_count"], again["status"]) == (1, "pending")

    async def test_an_unknown_size_is_filled_in_later(self, desk, phone, wish):
        await open_upload(desk, phone, replace(wish, size_bytes=0))
        assert (await open_upload(desk, phone, wish)).row["expected_size"] == len(CONTENT)

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"duration_seconds": 301}, error_codes.VIDEO_TOO_LONG),
            ({"content_type": "image/gif"}, error_codes.DIRECT_TYPE_REFUSED),
            ({"size_bytes": 3 * 1024**3}, error_codes.FILE_SIZE_EXCEEDED),
            ({"size_bytes": -1}, error_codes.REQUEST_INVALID),
            ({"content_type": "application/pdf", "duration_seconds": 2**31}, error_codes.REQUEST_INVALID),
            ({"content_md5_hex": "xyz"}, error_codes.REQUEST_INVALID),
            ({"filename": " "}, error_codes.REQUEST_INVALID),
            ({"filename": "a\x00b"}, error_codes.REQUEST_INVALID),
            ({"video_id": "7"}, error_codes.REQUEST_INVALID),
            ({"video_id": "5a0c7f6e-1111-4222-8333-444455556667"}, error_codes.VIDEO_NOT_FOUND),
        ],
    )
    async def test_what_cannot_work_is_refused(self, desk, phone, wish, changes, code):
        with pytest.raises(PenstockError) as refused:
            await open_upload(desk, phone, replace(wish, **changes))
        assert refused.value.code is code

    @pytest.mark.parametrize(("field", "value"), [("content_type", "video/quicktime"), ("size_bytes", 7)])
    async def test_the_same_content_with_other_facts_is_refused(self, desk, phone, wish, field, value):
        await open_upload(desk, phone, wish)
        with pytest.raises(PenstockError) as refused:
            await open_upload(desk, phone, replace(wish, **{field: value}))
        assert refused.value.code is error_codes.DIRECT_UPLOAD_DIFFERS
        assert field in refused.value.details["fields"]

    async def test_uploads_of_two_merchants_never_meet_whatever_their_tokens_say_of_the_user(self, desk, phone, wish):
        """Neither learns what the other has announced, nor announces it first to keep the other from it."""
        stranger = replace(phone, merchant_id="m-2")
        by_name = Caller("ming", "m-1", Role.UPLOADER)
        disguised = Caller(str(user_uuid(by_name)), "m-2", Role.UPLOADER)
        taken = await open_upload(desk, stranger, replace(wish, size_bytes=7))
        opened = [taken] + [await open_upload(desk, each, wish) for each in (phone, disguised, by_name)]
        assert len({each.row["upload_id"] for each in opened}) == 4
        assert len({each.row["object_name"] for each in opened}) == 4
        assert [each.row["merchant_id"] for each in opened] == ["m-2", "m-1", "m-2", "m-1"]


class TestAnotherBucket:
    @pytest.fixture
    def moved(self, desk):
        return replace(desk, bucket=ShelfBucket("new"), settings=DirectSettings(bucket_url="gs://new"))

    async def test_what_is_on_its_way_goes_to_the_new_one_when_it_is_announced_again(self, desk, moved, phone, wish):
        first = (await open_upload(desk, phone, wish)).row
        again = await open_upload(moved, phone, wish)
        assert (again.row["upload_id"], again.row["bucket"]) == (first["upload_id"], "new")
        assert again.start is not None
        assert await _arrived(moved, moved.bucket.put(again.row["object_name"], CONTENT)) is Outcome.COMPLETED

    async def test_what_is_complete_in_the_old_one_stays_complete(self, desk, moved, bucket, phone, wish):
        first = (await open_upload(desk, phone, wish)).row
        await _arrived(desk, bucket.put(first["object_name"], CONTENT))
        again = await open_upload(moved, phone, wish)
        assert again.already_completed
        assert again.row["bucket"] == bucket.name

    async def test_a_wrong_object_in_the_old_one_is_moved_aside_there(self, desk, moved, bucket, phone, wish):
        first = (await open_upload(desk, phone, wish)).row
        await _arrived(desk, wrong := bucket.put(first["object_name"], b"something else"))
        with_old = replace(moved, open_other={"shelf": bucket}.__getitem__)
        again = await open_upload(with_old, phone, wish)
        assert (again.row["bucket"], again.row["status"]) == ("new", "pending")
        assert set(bucket.objects) == {f"quarantine/{first['upload_id']}/{wrong.generation}"}
        assert again.row["aside_name"] in bucket.objects

    @pytest.mark.parametrize("trouble", ["away", "another of that name", "not known"])
    async def test_an_old_one_that_cannot_be_reached_holds_nobody_up_and_is_told(
        self, desk, moved, bucket, phone, wish, trouble
    ):
        first = (await open_upload(desk, phone, wish)).row
        await _arrived(desk, wrong := bucket.put(first["object_name"], b"something else"))
        bucket.is_away = trouble == "away"
        old = ShelfBucket("shelf") if trouble == "another of that name" else bucket
        others = {} if trouble == "not known" else {"open_other": {"shelf": old}.__getitem__}
        before = metrics.LEFT_BEHIND._value.get()
        later = replace(moved, **others)
        again, *_ = [each.row for each in await asyncio.gather(*(open_upload(later, phone, wish) for _ in range(3)))]
        assert (again["bucket"], again["status"], again["aside_generation"]) == ("new", "pending", None)
        assert again["aside_name"] == f"shelf/{wrong.name}#{wrong.generation}"
        assert metrics.LEFT_BEHIND._value.get() == before + 1
        assert wrong.name in bucket.objects


class TestOpeningAgain:
    async def test_a_failed_file_can_be_sent_again_when_the_wrong_one_is_out_of_the_way(
        self, desk, bucket, phone, wish
    ):
        first = await open_upload(desk, phone, wish)
        name = first.row["object_name"]
        assert await _arrived(desk, wrong := bucket.put(name, b"something else")) is Outcome.MISMATCH
        again = await open_upload(desk, phone, wish)
        assert again.row["upload_id"] == first.row["upload_id"]
        assert again.row["status"] == "pending"
        assert set(bucket.objects) == {f"quarantine/{first.row['upload_id']}/{wrong.generation}"}
        assert await _arrived(desk, bucket.put(name, CONTENT)) is Outcome.COMPLETED

    async def test_it_waits_while_the_bucket_is_away(self, desk, bucket, phone, wish):
        first = await open_upload(desk, phone, wish)
        await _arrived(desk, bucket.put(first.row["object_name"], b"something else"))
        bucket.is_away = True
        with pytest.raises(PenstockError) as refused:
            await open_upload(desk, phone, wish)
        assert refused.value.code is error_codes.STORE_UNAVAILABLE
        bucket.is_away = False
        assert (await open_upload(desk, phone, wish)).row["opened_count"] == 2

    async def test_ten_at_once_open_it_once(self, desk, bucket, phone, wish):
        first = await open_upload(desk, phone, wish)
        await _arrived(desk, bucket.put(first.row["object_name"], b"something else"))
        opened = await asyncio.gather(*(open_upload(desk, phone, wish) for _ in range(10)))
        assert {each.row["opened_count"] for each in opened} == {2}


class TestVideos:
    async def test_a_video_made_first_gets_the_file(self, desk, bucket, phone, wish):
        async with desk.database.transaction() as tx:
            video = await videos.create_video(tx, phone, "Holiday")
        opened = await open_upload(desk, phone, replace(wish, video_id=str(video["video_id"])))
        await _arrived(desk, bucket.put(opened.row["object_name"], CONTENT))
        async with desk.database.transaction() as tx:
            found = await videos.get_video(tx, phone, str(video["video_id"]))
        assert found["status"] == "processing"
        assert found["raw_file_reference"] == f"gs://shelf/{opened.row['object_name']}"

    async def test_another_file_for_the_same_video_takes_its_place(self, desk, bucket, phone, wish):
        async with desk.database.transaction() as tx:
            video = await videos.create_video(tx, phone, "Holiday")
        for_it = replace(wish, video_id=str(video["video_id"]))
        first = await open_upload(desk, phone, for_it)
        second = await open_upload(desk, phone, replace(for_it, content_md5_hex=md5_of(b"cut shorter"), size_bytes=11))
        await _arrived(desk, bucket.put(second.row["object_name"], b"cut shorter"))
        await _arrived(desk, bucket.put(first.row["object_name"], CONTENT))
        async with desk.database.transaction() as tx:
            rows = await fetch_all(tx, "select video_id from catalog.uploads order by created_at")
        assert rows[1]["video_id"] == video["video_id"]
        assert rows[0]["video_id"] not in (None, video["video_id"])
        with pytest.raises(PenstockError) as refused:
            await open_upload(desk, phone, replace(for_it, content_md5_hex=md5_of(b"third"), size_bytes=5))
        assert refused.value.code is error_codes.VIDEO_TAKEN

    async def test_ten_files_at_once_for_one_video_leave_it_with_one(self, desk, phone, wish):
        async with desk.database.transaction() as tx:
            video = await videos.create_video(tx, phone, "Holiday")
        for_it = replace(wish, video_id=str(video["video_id"]), size_bytes=0)
        wishes = [replace(for_it, content_md5_hex=f"{number:032x}") for number in range(10)]
        for _ in range(3):  # begun, and then gone on with
            await asyncio.gather(*(open_upload(desk, phone, each) for each in wishes))
        async with desk.database.transaction() as tx:
            rows = await fetch_all(tx, "select video_id from catalog.uploads")
        assert len(rows) == 10
        assert [row["video_id"] for row in rows if row["video_id"]] == [video["video_id"]]

    async def test_a_complete_file_takes_no_video_from_another(self, desk, bucket, phone, wish):
        done = await open_upload(desk, phone, wish)
        await _arrived(desk, bucket.put(done.row["object_name"], CONTENT))
        async with desk.database.transaction() as tx:
            video = await videos.create_video(tx, phone, "Holiday")
        for_it = replace(wish, video_id=str(video["video_id"]))
        other = replace(for_it, content_md5_hex=md5_of(b"other"), size_bytes=5)
        await open_upload(desk, phone, other)
        assert (await open_upload(desk, phone, for_it)).already_completed
        assert (await open_upload(desk, phone, other)).row["video_id"] == video["video_id"]

    async def test_the_media_pipeline_moves_it_on_in_order(self, desk, phone):
        operator = Caller("media", "m-0", Role.OPERATOR)
        async with desk.database.transaction() as tx:
            video = await videos.create_video(tx, phone, "Holiday")
        with pytest.raises(PenstockError) as refused:
            async with desk.database.transaction() as tx:
                await videos.move_on(tx, operator, str(video["video_id"]), videos.VideoStatus.READY)
        assert refused.value.code is error_codes.STATE_CHANGED


class TestArriving:
    async def test_a_complete_upload_is_told_once(self, desk, bucket, phone, wish):
        opened = await open_upload(desk, phone, wish)
        facts = bucket.put(opened.row["object_name"], CONTENT)
        outcomes = await asyncio.gather(*(_arrived(desk, facts) for _ in range(5)))
        assert sorted(outcomes) == ["completed", *["duplicate"] * 4]
        async with desk.database.transaction() as tx:
            told = await fetch_all(tx, "select * from outbox_events where event_type = 'video.upload.completed'")
            row = await fetch_one(tx, "select * from catalog.uploads")
        assert len(told) == 1
        assert row["md5_hash"] == row["content_md5"]
        assert row["gcs_generation"] == facts.generation

    async def test_an_object_without_md5_fails_closed(self, desk, bucket, phone, wish):
        opened = await open_upload(desk, phone, wish)
        facts = replace(bucket.put(opened.row["object_name"], CONTENT), md5_hex=None)
        assert await _arrived(desk, facts) is Outcome.MISMATCH
        async with desk.database.transaction() as tx:
            row = await fetch_one(tx, "select * from catalog.uploads")
            films = await fetch_all(tx, "select * from catalog.videos")
        assert (row["status"], row["error_code"]) == ("failed", "MD5_MISSING")
        assert films == []

    async def test_what_came_late_but_right_counts(self, desk, bucket, phone, wish):
        opened = await open_upload(desk, phone, wish)
        name = opened.row["object_name"]
        await _arrived(desk, bucket.put(name, b"something else"))
        assert await _arrived(desk, bucket.put(name, CONTENT)) is Outcome.COMPLETED
        assert await _arrived(desk, bucket.put(name, b"third")) is Outcome.SUPERSEDED

    async def test_what_nobody_announced_is_left_alone(self, desk, bucket):
        assert await _arrived(desk, bucket.put("videos/x/y", CONTENT)) is Outcome.UNKNOWN
