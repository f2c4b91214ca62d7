"""Another bucket is in use by now: what still has to be done in the old one, and what cannot be."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from tests.support.attending import attend, change
from tests.support.shelf import CONTENT, ShelfBucket

from penstock.cli.findings import Level
from penstock.cli.server_checks import direct_uploads_go_on
from penstock.uploads.direct.opening import open_upload
from penstock.uploads.direct.settings import DirectSettings


@pytest.fixture
async def opened(desk, phone, wish):
    return await open_upload(desk, phone, wish)


class TestABucketThatWasInUseBefore:
    @pytest.fixture
    def moved(self, desk, bucket):
        """Another bucket is in use by now; the old one can still be reached."""
        settings = DirectSettings(bucket_url="gs://new")
        return replace(desk, bucket=ShelfBucket("new"), settings=settings, open_other={"shelf": bucket}.__getitem__)

    async def test_what_came_there_without_news_is_found(self, moved, bucket, opened):
        bucket.put(opened.row["object_name"], CONTENT)
        row = await attend(moved)
        assert (row["status"], row["bucket"]) == ("completed", "shelf")

    async def test_what_came_there_still_becomes_something(self, desk, moved, bucket, opened):
        made = []

        async def become(row):
            made.append(row["upload_id"])

        bucket.put(opened.row["object_name"], CONTENT)
        await attend(desk)
        moved.becomes["video"] = become
        assert (await attend(moved))["due_at"] is None
        assert made == [opened.row["upload_id"]]

    async def test_a_wrong_object_is_moved_aside_there(self, desk, moved, bucket, opened):
        bucket.put(opened.row["object_name"], b"something else")
        await attend(desk)
        row = await attend(moved)
        assert (row["due_at"], row["aside_generation"]) == (None, None)
        assert set(bucket.objects) == {row["aside_name"]}

    async def test_killed_after_it_was_moved_it_is_only_noted(self, desk, moved, bucket, opened):
        wrong = bucket.put(opened.row["object_name"], b"something else")
        await attend(desk)
        await bucket.move_aside(
            wrong.name, wrong.generation, f"quarantine/{opened.row['upload_id']}/{wrong.generation}"
        )
        assert (await attend(moved))["aside_name"] in bucket.objects

    @pytest.mark.parametrize("content", [CONTENT, b"something else"], ids=["right", "wrong"])
    async def test_what_is_not_found_there_is_no_verdict(self, desk, moved, bucket, opened, content):
        """A bucket that is gone says the same as one that never had the object."""

        async def become(row):
            raise AssertionError

        bucket.put(opened.row["object_name"], content)
        await attend(desk)
        bucket.objects.clear()
        moved.becomes["video"] = become
        row = await attend(moved)
        assert row["looks"] == 1
        assert row["due_at"] is not None
        assert row["aside_name"] is None

    async def test_doctor_shows_what_is_tried_in_vain(self, desk, moved, bucket, opened, database_url):
        servers = SimpleNamespace(database_url=database_url)
        bucket.put(opened.row["object_name"], b"something else")
        await attend(desk)
        assert direct_uploads_go_on(servers).level is Level.OK
        bucket.is_away = True
        await change(desk, "looks = 5")
        await attend(moved)
        found = direct_uploads_go_on(servers)
        assert found.level is Level.WARN
        assert "shelf (1)" in found.said
