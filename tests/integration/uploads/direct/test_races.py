"""Phones, notifications, the reaper and who looks into the bucket, all at once: in the end there is one truth."""

import asyncio
import random
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.support.shelf import CONTENT, md5_of, pushed

from penstock.kernel import error_codes, leases
from penstock.kernel.db import fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.statemachine import Machine
from penstock.uploads.direct import videos
from penstock.uploads.direct.attending import DUE, attend_one
from penstock.uploads.direct.callback import receive
from penstock.uploads.direct.opening import open_upload
from penstock.uploads.direct.states import DIRECT_UPLOAD, VIDEO

ROUNDS, AT_ONCE = 16, 8
WRONG = b"something else" * 500


class Bystander:
    """What happens to one file, in an order that chance decides, from one seed."""

    def __init__(self, desk, caller, wish, seed):
        self.desk, self.caller, self.seed = desk, caller, seed
        self.content = CONTENT + str(seed).encode()
        self.wish = replace(wish, size_bytes=len(self.content), content_md5_hex=md5_of(self.content))
        self._random = random.Random(seed)
        self.name = ""
        self.answered = []

    async def live(self):
        row = (await open_upload(self.desk, self.caller, self.wish)).row
        self.name = row["object_name"]
        self.send()
        acts = [
            *[self.phone] * 3, *[self.notified] * 3, *[self.reaped] * 2, *[self.looked_at] * 4, *[self.swept] * 1,
        ]  # fmt: skip
        self._random.shuffle(acts)
        await asyncio.gather(*(self._later(act) for act in acts))

    async def _later(self, act):
        await asyncio.sleep(self._random.random() * 0.04)
        await act()

    async def phone(self):
        with suppress(PenstockError):  # the bucket may be busy moving something aside: phones ask again
            opened = await open_upload(self.desk, self.caller, self.wish)
            if opened.already_completed:
                self.answered.append("completed")
            else:
                self.send()

    def send(self):
        """The bucket writes over nothing."""
        if self.name not in self.desk.bucket.objects:
            self.desk.bucket.put(self.name, WRONG if self._random.random() < 0.4 else self.content)

    async def notified(self):
        if (found := self.desk.bucket.objects.get(self.name)) is not None:
            self.answered.append(await receive(self.desk, pushed(found[0])))

    async def reaped(self):
        async with self.desk.database.transaction() as tx:
            await tx.execute(
                "update catalog.uploads set opened_at = opened_at - interval '30 days', due_at = now()"
                " where object_name = %s and status = 'pending'",
                (self.name,),
            )

    async def looked_at(self):
        async with self.desk.database.transaction() as tx:
            await tx.execute(
                "update catalog.uploads set due_at = now() where object_name = %s and status = 'pending'", (self.name,)
            )
        mine = replace(DUE, ready=f"object_name = '{self.name}' and {DUE.ready}")
        async with self.desk.database.transaction() as tx:
            claimed = await leases.claim(tx, mine, owner="w", ttl=self.desk.settings.lease_seconds)
        for lease in claimed:
            await attend_one(self.desk, lease)

    async def swept(self):
        """As if a worker had been silent for too long: another may have what it still holds."""
        async with self.desk.database.transaction() as tx:
            await tx.execute(
                "update catalog.uploads set lease_owner = null, leased_until = null where object_name = %s",
                (self.name,),
            )

    async def come_to_rest(self):
        """The phone goes on until it is told that all is well, as it would."""
        for _ in range(10):
            with suppress(PenstockError):
                if (await open_upload(self.desk, self.caller, self.wish)).already_completed:
                    break
            if self.name not in self.desk.bucket.objects:
                self.desk.bucket.put(self.name, self.content)
            await self.looked_at()
        await self.looked_at()  # what it becomes


async def chain(tx, machine: Machine, entity_id):
    rows = await fetch_all(
        tx,
        "select from_status, to_status from state_transitions where entity_type = %s and entity_id = %s order by id",
        (machine.entity, str(entity_id)),
    )
    return [(row["from_status"], row["to_status"]) for row in rows]


async def judge(tx, one):
    [row] = await fetch_all(tx, "select * from catalog.uploads where object_name = %s", (one.name,))
    told = await fetch_all(
        tx,
        "select * from outbox_events where event_type = 'video.upload.completed' and payload->>'upload_id' = %s",
        (str(row["upload_id"]),),
    )
    videos = await fetch_all(
        tx, "select * from catalog.videos where raw_file_reference = %s", (f"gs://shelf/{one.name}",)
    )
    assert (row["status"], row["md5_hash"], row["due_at"], row["leased_until"]) == (
        "completed", one.wish.content_md5_hex, None, None,
    )  # fmt: skip
    assert len(told) == 1
    assert [video["video_id"] for video in videos] == [row["video_id"]]
    assert await chain(tx, VIDEO, row["video_id"]) == [(None, "pending_upload"), ("pending_upload", "processing")]
    steps = await chain(tx, DIRECT_UPLOAD, row["upload_id"])
    assert [source for source, _ in steps[1:]] == [target for _, target in steps[:-1]]
    assert [target for _, target in steps].count("completed") == 1
    assert one.desk.bucket.objects[one.name][1] == one.content


class TestEverythingAtOnce:
    @pytest.mark.parametrize("seed", [1, 20])
    async def test_there_is_one_row_one_event_and_one_video(self, desk, phone, wish, seed):
        everyone = [Bystander(desk, phone, wish, seed * 1000 + number) for number in range(ROUNDS)]
        for first in range(0, ROUNDS, AT_ONCE):
            await asyncio.gather(*(one.live() for one in everyone[first : first + AT_ONCE]))
        for one in everyone:
            await one.come_to_rest()
        async with desk.database.transaction() as tx:
            for one in everyone:
                await judge(tx, one)
            [films] = await fetch_all(tx, "select count(*) as n from catalog.videos")
        assert films["n"] == ROUNDS
        seen = {answer for one in everyone for answer in one.answered}
        assert {"completed", "duplicate", "mismatch"} <= seen  # the run was worth something
        assert seen <= {"completed", "duplicate", "mismatch"}

    async def test_a_video_and_the_file_that_comes_for_it_do_not_wait_for_each_other(self, desk, bucket, phone, wish):
        """Binding locks the video and then uploads, arriving an upload and its video."""
        for number in range(15):
            async with desk.database.transaction() as tx:
                video = await videos.create_video(tx, phone, "Holiday")
            content = [f"film {number} {which}".encode() for which in range(3)]
            wishes = [
                replace(wish, size_bytes=0, content_md5_hex=md5_of(each), video_id=str(video["video_id"]))
                for each in content
            ]
            rows = [(await open_upload(desk, phone, each)).row for each in wishes]
            facts = [bucket.put(row["object_name"], each) for row, each in zip(rows, content, strict=True)]
            outcomes = await asyncio.gather(
                *(open_upload(desk, phone, each) for each in wishes),
                *(receive(desk, pushed(each)) for each in facts),
                return_exceptions=True,
            )
            wrong = [each for each in outcomes if isinstance(each, BaseException)]
            assert all(isinstance(each, PenstockError) for each in wrong), wrong
            assert {each.code for each in wrong} <= {error_codes.VIDEO_TAKEN, error_codes.STATE_CHANGED}
            for each in facts:
                await receive(desk, pushed(each))
            async with desk.database.transaction() as tx:
                bound = await fetch_all(
                    tx,
                    "select video_id, v.status as film, u.status as file from catalog.videos v"
                    " left join catalog.uploads u using (video_id)",
                )
            assert {(row["film"], row["file"]) for row in bound} <= {
                ("processing", "completed"),
                ("pending_upload", None),
            }
            assert [row["film"] for row in bound].count("processing") == 3 * (number + 1)
