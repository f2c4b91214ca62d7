"""Notifications of the bucket: late, twice, out of order, and not always sane."""

import json
import random
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from tests.support.shelf import CONTENT, ShelfBucket, pushed

from penstock.kernel.db import fetch_all, fetch_one
from penstock.uploads.direct import metrics
from penstock.uploads.direct.callback import receive
from penstock.uploads.direct.opening import open_upload
from penstock.uploads.direct.settings import PDF_POLICY, VIDEO_POLICY, DirectSettings


@pytest.fixture
async def facts(desk, bucket, phone, wish):
    opened = await open_upload(desk, phone, wish)
    return bucket.put(opened.row["object_name"], CONTENT)


class TestNotifications:
    async def test_the_first_moves_the_upload_on_and_repeats_change_nothing(self, desk, facts):
        assert [await receive(desk, pushed(facts)) for _ in range(3)] == ["completed", "duplicate", "duplicate"]
        async with desk.database.transaction() as tx:
            inbox = await fetch_all(tx, "select * from catalog.inbox_events")
        assert [row["dedup_key"] for row in inbox] == [f"{facts.bucket}/{facts.name}#{facts.generation}"]
        assert inbox[0]["first_msg_id"] == "17"

    async def test_operators_can_search_their_logs_by_everything_that_names_it(self, desk, facts):
        with capture_logs() as lines:
            await receive(desk, pushed(facts, message_id="4711"))
        async with desk.database.transaction() as tx:
            row = await fetch_one(tx, "select * from catalog.uploads")
        assert {
            "event": "direct.object_heard_of", "log_level": "info", "outcome": "completed", "by": "callback",
            "upload": str(row["upload_id"]), "user": str(row["user_id"]), "object": facts.name,
            "generation": facts.generation, "message": "4711",
        } in lines  # fmt: skip

    async def test_those_that_come_again_are_counted_where_the_subscription_says_so(self, desk, facts):
        before = metrics.CALLED_AGAIN._value.get()
        for attempt in (1, 2, True, "3"):
            await receive(desk, json.dumps(json.loads(pushed(facts)) | {"deliveryAttempt": attempt}).encode())
        assert metrics.CALLED_AGAIN._value.get() == before + 1

    async def test_other_events_of_the_bucket_are_acknowledged_and_forgotten(self, desk, facts):
        assert await receive(desk, pushed(facts, event="OBJECT_DELETE")) == "ignored"

    async def test_an_object_without_md5_fails_closed(self, desk, facts):
        assert await receive(desk, pushed(facts, md5Hash=None)) == "mismatch"
        async with desk.database.transaction() as tx:
            row = await fetch_one(tx, "select * from catalog.uploads")
        assert (row["status"], row["error_code"], row["aside_generation"]) == (
            "failed",
            "MD5_MISSING",
            facts.generation,
        )

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"size": "7"}, "SIZE_MISMATCH"),
            ({"contentType": "image/png"}, "CONTENT_TYPE_MISMATCH"),
            ({"md5Hash": "not base64!"}, "MD5_MISSING"),
        ],
    )
    async def test_what_is_not_as_announced_fails(self, desk, facts, changes, code):
        assert await receive(desk, pushed(facts, **changes)) == "mismatch"
        async with desk.database.transaction() as tx:
            row = await fetch_one(tx, "select * from catalog.uploads")
        assert (row["status"], row["error_code"]) == ("failed", code)

    async def test_what_was_announced_under_a_policy_that_has_another_name_now_ends_by_that(self, desk, facts):
        renamed = VIDEO_POLICY.model_copy(update={"name": "film", "folder": "films"})
        later = replace(desk, settings=DirectSettings(bucket_url="gs://shelf", policies=(renamed,)))
        assert await receive(later, pushed(facts)) == "completed"
        async with desk.database.transaction() as tx:
            video = await fetch_one(tx, "select v.* from catalog.videos v join catalog.uploads using (video_id)")
        assert video["status"] == "processing"

    async def test_what_is_not_taken_any_more_fails_and_is_moved_aside(self, desk, facts):
        later = replace(desk, settings=DirectSettings(bucket_url="gs://shelf", policies=(PDF_POLICY,)))
        assert await receive(later, pushed(facts)) == "mismatch"
        async with desk.database.transaction() as tx:
            row = await fetch_one(tx, "select * from catalog.uploads")
        assert (row["status"], row["error_code"]) == ("failed", "DIRECT_TYPE_REFUSED")
        assert row["aside_generation"] == facts.generation

    @pytest.mark.parametrize(
        "body",
        [
            b"", b"{", b"[]", b"7", b'{"message": 7}', b'{"message": {"attributes": []}}', b"\xff\xfe", b"[" * 100_000,
            b'{"message": {"attributes": {"eventType": "OBJECT_FINALIZE"}, "data": "%%%"}}',
            b'{"message": {"attributes": {"eventType": "OBJECT_FINALIZE"}, "data": "e30="}}',
            b'{"message": {"attributes": {"eventType": "OBJECT_FINALIZE"}}}',
        ],
    )  # fmt: skip
    async def test_what_cannot_be_understood_is_kept_for_people(self, desk, body):
        assert await receive(desk, body) == "dead"
        async with desk.database.transaction() as tx:
            kept = await fetch_one(tx, "select * from catalog.dead_messages")
        assert body.startswith(bytes(kept["body"]))
        assert kept["reason"]

    @pytest.mark.parametrize("name", ["a\x00b", "a\ud800b", "x" * 2000, "视" * 342, 7.5, None, ""])
    async def test_a_name_that_cannot_be_one_is_kept_for_people(self, desk, facts, name):
        assert await receive(desk, pushed(facts, name=name)) == "dead"

    @pytest.mark.parametrize(("field", "value"), [("bucket", "b" * 223), ("generation", "9" * 21)])
    async def test_what_is_longer_than_a_bucket_makes_it_is_kept_for_people(self, desk, facts, field, value):
        assert await receive(desk, pushed(facts, **{field: value})) == "dead"

    async def test_the_longest_names_are_taken(self, desk, facts):
        longest = {"bucket": random.randbytes(111).hex(), "name": random.randbytes(512).hex(), "generation": "9" * 20}
        assert await receive(desk, pushed(facts, **longest)) == "unknown"

    async def test_what_lies_in_the_bucket_used_before_is_said_to_lie_there(self, desk, facts):
        moved = replace(desk, bucket=ShelfBucket("new"), settings=DirectSettings(bucket_url="gs://new"))
        assert await receive(moved, pushed(facts)) == "completed"
        async with desk.database.transaction() as tx:
            video = await fetch_one(tx, "select * from catalog.videos")
        assert video["raw_file_reference"] == f"gs://{facts.bucket}/{facts.name}"

    @pytest.mark.parametrize("size", [str(2**63), "9" * 500, "-1", "1e3", "٣"])
    async def test_a_size_that_cannot_be_one_is_kept_for_people(self, desk, facts, size):
        assert await receive(desk, pushed(facts, size=size)) == "dead"

    async def test_letters_that_cannot_be_stored_hold_nothing_up(self, desk, facts):
        assert await receive(desk, pushed(facts, message_id="a\x00b", etag="\x00", crc32c="c\x00")) == "completed"
        assert await receive(desk, pushed(facts, message_id="a\ud800b")) == "dead"

    async def test_a_repeat_after_it_was_forgotten_is_still_a_repeat(self, desk, facts):
        await receive(desk, pushed(facts))
        async with desk.database.transaction() as tx:
            await tx.execute("delete from catalog.inbox_events")
        assert await receive(desk, pushed(facts)) == "duplicate"

    async def test_of_wrong_objects_told_out_of_order_the_newest_is_moved_aside(self, desk, facts):
        told = []
        for generation in ("9", "10", "8"):
            await receive(desk, pushed(facts, size="7", generation=generation))
            async with desk.database.transaction() as tx:
                told.append((await fetch_one(tx, "select aside_generation from catalog.uploads"))["aside_generation"])
        assert told == ["9", "10", "10"]

    async def test_workers_are_woken_for_what_follows(self, desk, facts, redis_client):
        await receive(desk, pushed(facts))
        assert await redis_client.zcard(desk.queue.name) == 1
