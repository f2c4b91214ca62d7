"""What a merchant's open direct uploads may announce, and how many there may be."""

import asyncio
from dataclasses import replace

import pytest
from tests.support.shelf import CONTENT, md5_of

from penstock.kernel import error_codes
from penstock.kernel.db import fetch_all, fetch_one
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Role
from penstock.uploads.direct import videos
from penstock.uploads.direct.finishing import News, judge
from penstock.uploads.direct.opening import open_upload

MB = 1_000_000
FULL = error_codes.UPLOAD_SLOTS_FULL
ROWS = 20_000


def limited(desk, **limits):
    return replace(desk, settings=desk.settings.model_copy(update=limits))


@pytest.fixture
def small(desk):
    """A merchant may have 10 MB open."""
    return limited(desk, open_bytes_per_merchant=10 * MB)


@pytest.fixture
def film(wish):
    def named(name, size=MB, **changes):
        return replace(wish, content_md5_hex=md5_of(str(name).encode()), size_bytes=size, **changes)

    return named


async def refusal(opening):
    with pytest.raises(PenstockError) as refused:
        await opening
    assert refused.value.code is FULL
    return refused.value.details


async def open_of(desk, merchant="m-1"):
    async with desk.database.transaction() as tx:
        return await fetch_one(
            tx,
            "select count(*)::int as uploads, coalesce(sum(expected_size), 0)::bigint as bytes from catalog.uploads"
            " where merchant_id = %s and status in ('pending', 'uploading')",
            (merchant,),
        )


async def all_at_once(desks, phone, wishes):
    """How many began; each of the others was told that there is no room."""
    found = await asyncio.gather(
        *(open_upload(desks[number % len(desks)], phone, each) for number, each in enumerate(wishes)),
        return_exceptions=True,
    )
    refused = [each for each in found if isinstance(each, BaseException)]
    assert all(isinstance(each, PenstockError) and each.code is FULL for each in refused), refused
    return len(found) - len(refused)


class TestBytes:
    async def test_more_than_the_limit_is_refused_and_it_is_said_why(self, small, phone, film):
        await open_upload(small, phone, film("a", 6 * MB))
        details = await refusal(open_upload(small, phone, film("b", 5 * MB)))
        assert details == {"held_bytes": 6 * MB, "limit_bytes": 10 * MB, "retry_after": 60}
        await open_upload(small, phone, film("c", 4 * MB))

    async def test_users_of_a_merchant_share_it_and_other_merchants_have_their_own(self, small, phone, film):
        await open_upload(small, phone, film("a", 10 * MB))
        await refusal(open_upload(small, Caller("ming", "m-1", Role.UPLOADER), film("b")))
        await open_upload(small, Caller("ming", "m-2", Role.UPLOADER), film("b", 10 * MB))

    async def test_an_upload_that_is_announced_again_counts_once(self, small, phone, film):
        for _ in range(3):
            await asyncio.gather(*(open_upload(small, phone, film("a", 10 * MB)) for _ in range(10)))
        assert await open_of(small) == {"uploads": 1, "bytes": 10 * MB}

    async def test_one_of_unknown_size_counts_as_the_largest_that_is_taken(self, desk, phone, film):
        largest = max(int(policy.largest) for policy in desk.settings.policies)
        tight = limited(desk, open_bytes_per_merchant=largest + MB)
        await open_upload(tight, phone, film("a", 0))
        await refusal(open_upload(tight, phone, film("b", 2 * MB)))
        await open_upload(tight, phone, film("a", 3 * MB))  # now it is known
        await open_upload(tight, phone, film("b", 2 * MB))

    async def test_a_complete_one_counts_no_longer(self, desk, bucket, phone, wish, film):
        tight = limited(desk, open_bytes_per_merchant=MB + len(CONTENT))
        first = await open_upload(tight, phone, wish)
        await refusal(open_upload(tight, phone, film("b", MB + 1)))
        facts = bucket.put(first.row["object_name"], CONTENT)
        async with desk.database.transaction() as tx:
            await judge(tx, desk.settings, News(facts, "callback", "gs://shelf"))
        await open_upload(tight, phone, film("b", MB + 1))
        assert (await open_upload(tight, phone, wish)).already_completed

    async def test_a_failed_one_counts_when_it_is_opened_again(self, small, bucket, phone, film):
        failed = film("a", 6 * MB)
        first = await open_upload(small, phone, failed)
        facts = bucket.put(first.row["object_name"], b"something else")
        async with small.database.transaction() as tx:
            await judge(tx, small.settings, News(facts, "callback", "gs://shelf"))
        await open_upload(small, phone, film("b", 6 * MB))
        await refusal(open_upload(small, phone, failed))

    async def test_a_video_keeps_its_upload_when_another_for_it_is_refused(self, small, phone, film):
        async with small.database.transaction() as tx:
            video = str((await videos.create_video(tx, phone, "Holiday"))["video_id"])
        first = await open_upload(small, phone, film("a", 6 * MB, video_id=video))
        await refusal(open_upload(small, phone, film("b", 6 * MB, video_id=video)))
        again = await open_upload(small, phone, film("a", 6 * MB))
        assert again.row["video_id"] == first.row["video_id"]


class TestNumber:
    async def test_one_too_many_is_refused_however_small(self, desk, phone, film):
        few = limited(desk, open_per_merchant=2)
        for name in "ab":
            await open_upload(few, phone, film(name, 1))
        assert await refusal(open_upload(few, phone, film("c", 1))) == {"slots": 2, "retry_after": 60}


class TestAtOnce:
    async def test_of_many_in_one_process_as_many_begin_as_there_is_room_for(self, small, phone, film):
        assert await all_at_once([small], phone, [film(number) for number in range(50)]) == 10
        assert await open_of(small) == {"uploads": 10, "bytes": 10 * MB}

    async def test_several_processes_do_not_pass_it_together(self, small, phone, film):
        """Each desk writes groups of its own, as a process does."""
        desks = [replace(small) for _ in range(4)]
        for number in range(9):
            await open_upload(small, phone, film(number))
        assert await all_at_once(desks, phone, [film(f"last {number}") for number in range(24)]) == 1
        assert await open_of(small) == {"uploads": 10, "bytes": 10 * MB}

    async def test_one_that_is_too_large_keeps_no_small_one_out(self, small, phone, film):
        wishes = [
            film("huge", 11 * MB),
            *(film(number) for number in range(10)),
            *(film(number) for number in range(5)),
        ]
        assert await all_at_once([small], phone, wishes) == 15  # five of them twice
        assert await open_of(small) == {"uploads": 10, "bytes": 10 * MB}


class TestCounting:
    async def test_the_rows_that_have_ended_are_not_read(self, database):
        """However many uploads a merchant has had, only open ones are added up."""
        async with database.transaction() as tx:
            await tx.execute(
                "insert into catalog.uploads (user_id, bucket, object_name, original_filename, content_type,"
                " content_md5, status, merchant_id, user_name, policy)"
                " select gen_random_uuid(), 'b', n::text, 'f', 't', md5(n::text),"
                " case when n %% 100 = 0 then 'pending' else 'completed' end, 'm-1', 'u', 'video'"
                " from generate_series(1, %s) n",
                (ROWS,),
            )
            await tx.execute("analyze catalog.uploads")
            plan = await fetch_all(
                tx,
                "explain select count(*), sum(expected_size) from catalog.uploads"
                " where merchant_id = 'm-1' and status in ('pending', 'uploading')",
            )
        assert "idx_direct_uploads_open" in str(plan)
