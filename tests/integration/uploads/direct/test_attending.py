"""What is due is done, once, whatever is away and whoever dies."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.support.attending import attend, change, claim, only_row
from tests.support.shelf import CONTENT, ShelfBucket, pushed

from penstock.kernel import error_codes, leases
from penstock.kernel.db import fetch_all
from penstock.kernel.errors import PenstockError
from penstock.uploads.direct import metrics, parts_store
from penstock.uploads.direct.attendant import Attendant
from penstock.uploads.direct.attending import DUE, attend_one
from penstock.uploads.direct.callback import receive
from penstock.uploads.direct.opening import open_upload
from penstock.uploads.direct.settings import PDF_POLICY, DirectSettings
from penstock.uploads.direct.sweeping import forget_dead_messages, sweep


async def told_of(desk, event_type):
    async with desk.database.transaction() as tx:
        return await fetch_all(tx, "select * from outbox_events where event_type = %s", (event_type,))


def value_of(counter, **labels):
    return (counter.labels(**labels) if labels else counter)._value.get()


@pytest.fixture
async def opened(desk, phone, wish):
    return await open_upload(desk, phone, wish)


class TestOrder:
    async def test_what_has_come_waits_for_no_crowd_that_has_not(self, desk, bucket, phone, wish, opened):
        other = await open_upload(desk, phone, replace(wish, content_md5_hex="0" * 32))
        await change(desk, "due_at = now() - interval '1 hour'")
        await receive(desk, pushed(bucket.put(opened.row["object_name"], CONTENT)))
        async with desk.database.transaction() as tx:
            due = await leases.claim(tx, DUE, owner=desk.owner, ttl=desk.settings.lease_seconds, limit=1)
            rest = await leases.claim(tx, DUE, owner=desk.owner, ttl=desk.settings.lease_seconds)
        assert [lease.key for lease in [*due, *rest]] == [opened.row["upload_id"], other.row["upload_id"]]


class TestAnUploadWithoutNews:
    async def test_what_is_found_in_the_bucket_is_complete_as_if_it_had_been_told(self, desk, bucket, opened):
        facts = bucket.put(opened.row["object_name"], CONTENT)
        before = value_of(metrics.RECONCILED)
        row = await attend(desk)
        assert (row["status"], row["gcs_generation"], row["leased_until"]) == ("completed", facts.generation, None)
        assert row["due_in"] <= timedelta(0)  # what it becomes is next
        assert value_of(metrics.RECONCILED) == before + 1
        assert len(await told_of(desk, "video.upload.completed")) == 1
        async with desk.database.transaction() as tx:
            inbox = await fetch_all(tx, "select source, dedup_key from catalog.inbox_events")
        assert inbox == [{"source": "gcs", "dedup_key": f"shelf/{facts.name}#{facts.generation}"}]

    async def test_looks_become_rarer_and_the_last_is_at_the_end(self, desk, opened):
        waits = [(await attend(desk))["due_in"] for _ in range(7)]
        assert timedelta(minutes=1.9) < waits[0] < timedelta(minutes=2.6)
        assert timedelta(minutes=3.9) < waits[1] < timedelta(minutes=5.1)
        assert timedelta(minutes=59) < waits[6] < timedelta(minutes=76)
        await change(desk, f"opened_at = now() - interval '{desk.settings.patience - timedelta(minutes=3)}'")
        assert timedelta(minutes=2) < (await attend(desk))["due_in"] < timedelta(minutes=3.1)

    async def test_it_is_given_up_when_its_time_is_over(self, desk, opened):
        await change(desk, f"opened_at = now() - interval '{desk.settings.patience}'")
        before = value_of(metrics.EXPIRED)
        row = await attend(desk)
        assert (row["status"], row["error_code"], row["due_at"]) == ("failed", "SESSION_EXPIRED", None)
        assert value_of(metrics.EXPIRED) == before + 1
        [told] = await told_of(desk, "direct_upload.failed")
        assert told["payload"]["error_code"] == "SESSION_EXPIRED"

    async def test_that_is_seven_days_and_the_life_of_the_signature_unless_settings_say_otherwise(self):
        assert DirectSettings.model_construct().patience == timedelta(days=7, minutes=15)

    async def test_a_last_look_finds_what_came_at_the_last_moment(self, desk, bucket, opened):
        bucket.put(opened.row["object_name"], CONTENT)
        await change(desk, f"opened_at = now() - interval '{desk.settings.patience * 2}'")
        assert (await attend(desk))["status"] == "completed"

    async def test_it_is_not_given_up_while_nobody_can_look(self, desk, bucket, opened):
        await change(desk, f"opened_at = now() - interval '{desk.settings.patience * 2}'")
        bucket.is_away = True
        row = await attend(desk)
        assert (row["status"], row["looks"]) == ("pending", 1)

    async def test_it_is_not_given_up_when_the_phone_begins_again_meanwhile(self, desk, phone, wish, opened):
        await change(desk, f"opened_at = now() - interval '{desk.settings.patience}'")
        lease = await claim(desk)
        await open_upload(desk, phone, wish)
        await attend_one(desk, lease)
        row = await only_row(desk)
        assert (row["status"], row["leased_until"], row["looks"]) == ("pending", None, 0)
        assert row["due_in"] > timedelta(minutes=16)

    async def test_who_says_meanwhile_that_it_is_there_has_it_looked_at_again(self, desk, opened):
        lease = await claim(desk)
        async with desk.database.transaction() as tx:
            await parts_store.look_now(tx, opened.row["upload_id"])
        await attend_one(desk, lease)
        row = await only_row(desk)
        assert row["due_in"] <= timedelta(0)
        assert row["leased_until"] is None

    async def test_a_wrong_object_is_moved_aside(self, desk, bucket, opened):
        wrong = bucket.put(opened.row["object_name"], b"something else")
        row = await attend(desk)
        assert (row["status"], row["error_code"]) == ("failed", "MD5_MISMATCH")
        row = await attend(desk)
        assert (row["due_at"], row["aside_generation"]) == (None, None)
        assert row["aside_name"] == f"quarantine/{row['upload_id']}/{wrong.generation}"
        assert set(bucket.objects) == {row["aside_name"]}

    async def test_an_object_that_was_not_announced_then_counts_when_it_is(self, desk, bucket, phone, wish):
        row = (await open_upload(desk, phone, wish)).row
        async with desk.database.transaction() as tx:
            await tx.execute("delete from catalog.uploads")
        facts = bucket.put(row["object_name"], CONTENT)
        assert await receive(desk, pushed(facts)) == "unknown"
        await open_upload(desk, phone, wish)
        assert (await attend(desk))["status"] == "completed"

    async def test_it_also_counts_when_it_is_told_again(self, desk, bucket, phone, wish, opened):
        facts = bucket.put(opened.row["object_name"], CONTENT)
        await change(desk, "object_name = 'not/yet'")
        assert await receive(desk, pushed(facts)) == "unknown"
        await change(desk, f"object_name = '{facts.name}'")
        assert await receive(desk, pushed(facts)) == "completed"

    async def test_a_wrong_object_that_came_back_is_moved_aside_again(self, desk, bucket, phone, wish, opened):
        name = opened.row["object_name"]
        bucket.put(name, b"something else")
        kept = bucket.objects[name]
        await attend(desk)
        await open_upload(desk, phone, wish)
        bucket.objects[name] = kept  # as after a removal that was not one
        assert (await attend(desk))["status"] == "failed"
        await attend(desk)
        assert name not in bucket.objects

    async def test_of_another_bucket_nothing_is_done_but_giving_it_up(self, desk, bucket, opened):
        bucket.put(opened.row["object_name"], CONTENT)
        await change(desk, "bucket = 'before'")
        assert (await attend(desk))["status"] == "pending"
        await change(desk, f"opened_at = now() - interval '{desk.settings.patience}'")
        assert (await attend(desk))["status"] == "failed"


class TestWhatItBecomes:
    @pytest.fixture
    async def complete(self, desk, bucket, opened):
        bucket.put(opened.row["object_name"], CONTENT)
        return await attend(desk)

    async def test_it_is_made_once_and_the_clock_stops(self, desk, complete):
        made = []

        async def become(row):
            made.append(row["upload_id"])

        desk.becomes["video"] = become
        row = await attend(desk)
        assert made == [complete["upload_id"]]
        assert (row["due_at"], row["leased_until"]) == (None, None)

    async def test_a_policy_that_is_taken_away_meanwhile_takes_nothing_from_it(self, desk, complete):
        made = []

        async def become(row):
            made.append(row["upload_id"])

        desk.becomes["video"] = become
        await attend(replace(desk, settings=DirectSettings(bucket_url="gs://shelf", policies=(PDF_POLICY,))))
        assert made == [complete["upload_id"]]

    async def test_what_fails_every_time_is_tried_rarely(self, desk, complete):
        async def become(row):
            raise ValueError("no such thing")

        desk.becomes["video"] = become
        first = await attend(desk)
        assert first["looks"] == 1
        assert timedelta(seconds=1) < first["due_in"] < timedelta(seconds=3)
        await change(desk, "looks = 13")
        assert timedelta(minutes=59) < (await attend(desk))["due_in"] < timedelta(minutes=76)

    async def test_a_bucket_that_is_away_is_waited_for(self, desk, complete):
        async def become(row):
            raise PenstockError(error_codes.STORE_UNAVAILABLE)

        desk.becomes["video"] = become
        before = value_of(metrics.ATTENDED, status="completed", outcome="away")
        row = await attend(desk)
        assert row["looks"] == 1
        assert row["due_in"] > timedelta(seconds=1)
        assert value_of(metrics.ATTENDED, status="completed", outcome="away") == before + 1

    async def test_long_work_keeps_its_lease_and_ends_when_it_is_lost(self, desk, complete):
        object.__setattr__(desk.settings, "lease_seconds", timedelta(seconds=0.3))
        begun, ended = asyncio.Event(), []

        async def become(row):
            begun.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        desk.becomes["video"] = become
        lease = await claim(desk)
        working = asyncio.create_task(attend_one(desk, lease))
        await begun.wait()
        async with asyncio.timeout(20):
            while (await only_row(desk))["leased_until"] <= lease.row["leased_until"]:
                await asyncio.sleep(0.02)
        await change(desk, "lease_token = lease_token + 1")  # somebody else has it
        async with asyncio.timeout(20):
            await working
        assert ended == ["cancelled"]
        row = await only_row(desk)
        assert row["due_at"] is not None
        assert row["leased_until"] is not None  # the other's


class TestLosingWorkers:
    async def test_what_a_dead_worker_held_is_free_but_not_at_once(self, desk, opened):
        await claim(desk)
        await change(desk, "leased_until = now() - interval '1 second', looks = 3")
        await sweep(desk)
        row = await only_row(desk)
        assert (row["leased_until"], row["looks"]) == (None, 4)
        assert timedelta(seconds=14) < row["due_in"] < timedelta(seconds=17)

    async def test_a_worker_that_was_paused_settles_nothing(self, desk, bucket, opened):
        bucket.put(opened.row["object_name"], CONTENT)
        late = await claim(desk)
        await change(desk, "leased_until = null")
        await claim(desk)
        await attend_one(desk, late)
        row = await only_row(desk)
        assert (row["status"], row["lease_token"]) == ("pending", late.token + 1)
        assert row["leased_until"] is not None
        assert await told_of(desk, "video.upload.completed") == []

    async def test_the_living_are_woken_for_what_is_due(self, desk, opened, redis_client):
        await change(desk, "due_at = now()")
        await sweep(desk)
        assert await redis_client.zcard(desk.queue.name) == 1


class SlowBucket(ShelfBucket):
    """Says how many look at once."""

    at_once = most = 0

    async def find(self, object_name):
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.01)
        self.at_once -= 1
        return await super().find(object_name)


class TestTheLoop:
    async def test_all_that_is_due_is_done_so_many_at_once(self, desk, phone, wish):
        bucket = SlowBucket()
        slow = replace(desk, bucket=bucket, settings=desk.settings.model_copy(update={"attend_at_once": 3}))
        for number in range(12):
            row = (await open_upload(slow, phone, replace(wish, content_md5_hex=f"{number:032x}", size_bytes=0))).row
            bucket.put(row["object_name"], b"wrong")
        await change(slow, "due_at = now()")
        stop, attendant = asyncio.Event(), Attendant(slow)
        running = asyncio.create_task(attendant.run(stop))
        async with asyncio.timeout(30):
            while len([name for name in bucket.objects if name.startswith("quarantine/")]) < 12:
                await asyncio.sleep(0.02)
        stop.set()
        await asyncio.wait_for(running, 20)
        assert bucket.most == 3
        async with desk.database.transaction() as tx:
            left = await fetch_all(
                tx, "select 1 from catalog.uploads where due_at is not null or lease_owner is not null"
            )
        assert left == []

    async def test_what_is_in_hand_is_given_back_when_there_is_no_time(self, desk, bucket, opened):
        begun = asyncio.Event()

        async def become(row):
            begun.set()
            await asyncio.sleep(60)

        bucket.put(opened.row["object_name"], CONTENT)
        await attend(desk)
        desk.becomes["video"] = become
        stop, attendant = asyncio.Event(), Attendant(desk)
        running = asyncio.create_task(attendant.run(stop))
        await asyncio.wait_for(begun.wait(), 20)
        stop.set()
        attendant.hand_back()
        await asyncio.wait_for(running, 20)
        row = await only_row(desk)
        assert row["leased_until"] is None
        assert row["due_in"] <= timedelta(0)


class TestForgetting:
    async def test_dead_messages_go_when_they_are_old_or_too_many(self, desk):
        async with desk.database.transaction() as tx:
            await tx.execute(
                "insert into catalog.dead_messages (source, reason, body, received_at)"
                " select 'gcs', n::text, '', now() - n * interval '1 day' from generate_series(40, 1, -1) n"
            )
        assert await forget_dead_messages(desk) == 11
        object.__setattr__(desk.settings, "dead_messages_most", 5)
        assert await forget_dead_messages(desk) == 24
        async with desk.database.transaction() as tx:
            left = await fetch_all(tx, "select reason from catalog.dead_messages order by message_id")
        assert [row["reason"] for row in left] == ["5", "4", "3", "2", "1"]
