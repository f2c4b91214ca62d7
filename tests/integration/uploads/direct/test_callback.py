"""Notifications of the bucket: late, twice, out of order, and not always sane."""

import base64
import json

import pytest
from tests.support.shelf import CONTENT

from penstock.kernel.db import fetch_all, fetch_one
from penstock.uploads.direct.callback import receive
from penstock.uploads.direct.opening import open_upload


def _pushed(facts, event="OBJECT_FINALIZE", **changes):
    resource = {
        "kind": "storage#object", "bucket": facts.bucket, "name": facts.name, "generation": facts.generation,
        "size": str(facts.size), "contentType": facts.content_type, "crc32c": "AAAAAA==", "etag": "CAE=",
        "md5Hash": base64.b64encode(bytes.fromhex(facts.md5_hex)).decode(), "timeCreated": "2026-11-15T10:00:00.000Z",
    }  # fmt: skip
    resource = {name: value for name, value in (resource | changes).items() if value is not None}
    message = {
        "data": base64.b64encode(json.dumps(resource).encode()).decode(), "messageId": "17", "message_id": "17",
        "attributes": {"eventType": event, "bucketId": facts.bucket, "objectId": facts.name},
    }  # fmt: skip
    return json.dumps({"subscription": "projects/p/subscriptions/s", "message": message}).encode()


@pytest.fixture
async def facts(desk, bucket, phone, wish):
    opened = await open_upload(desk, phone, wish)
    return bucket.put(opened.row["object_name"], CONTENT)


class TestNotifications:
    async def test_the_first_moves_the_upload_on_and_repeats_change_nothing(self, desk, facts):
        assert [await receive(desk, _pushed(facts)) for _ in range(3)] == ["completed", "duplicate", "duplicate"]
        async with desk.database.transaction() as tx:
            inbox = await fetch_all(tx, "select * from catalog.inbox_events")
        assert [row["dedup_key"] for row in inbox] == [f"{facts.bucket}/{facts.name}#{facts.generation}"]
        assert inbox[0]["first_msg_id"] == "17"

    async def test_other_events_of_the_bucket_are_acknowledged_and_forgotten(self, desk, facts):
        assert await receive(desk, _pushed(facts, event="OBJECT_DELETE")) == "ignored"

    async def test_an_object_without_md5_fails_closed(self, desk, facts):
        assert await receive(desk, _pushed(facts, md5Hash=None)) == "mismatch"
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
        assert await receive(desk, _pushed(facts, **changes)) == "mismatch"
        async with desk.database.transaction() as tx:
            row = await fetch_one(tx, "select * from catalog.uploads")
        assert (row["status"], row["error_code"]) == ("failed", code)

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

    @pytest.mark.parametrize("name", ["a\x00b", "x" * 2000, 7.5, None, ""])
    async def test_a_name_that_cannot_be_one_is_kept_for_people(self, desk, facts, name):
        assert await receive(desk, _pushed(facts, name=name)) == "dead"
