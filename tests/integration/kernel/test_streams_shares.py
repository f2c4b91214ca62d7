"""What one merchant asks of event streams does not keep another's waiting."""

import asyncio

import pytest
from tests.support.streams import World, numbers, opened, take

from penstock.kernel.streams import Request, Snapshots, StreamReader, StreamSettings


@pytest.fixture
def world(database, redis_client, keys):
    return World(database, redis_client, keys, StreamSettings(catch_up_sec=3))


class TestSnapshots:
    async def test_a_merchant_that_asks_for_many_leaves_places_to_others(self, database):
        over = asyncio.Event()

        async def slow(tx, topic: str) -> dict:
            if topic != "job:quick":
                await over.wait()
            return {}

        snapshots = Snapshots(database, {"job": slow})
        many = [asyncio.create_task(snapshots.read(f"job:{n}", "loud")) for n in range(20)]
        await asyncio.sleep(0.05)
        try:
            assert await asyncio.wait_for(snapshots.read("job:quick", "quiet"), 5) == b"{}"
        finally:
            over.set()
            await asyncio.gather(*many)


class TestReplaying:
    async def test_a_merchant_whose_streams_all_replay_leaves_places_to_others(self, world, monkeypatch):
        over, pages = asyncio.Event(), StreamReader.pages

        async def slow(self, after, run):
            if any(topic.startswith("job:loud") for topic in after):
                await over.wait()
            return await pages(self, after, run)

        async with world.started_hub() as hub:
            bookmarks = {}
            for topic in (*(f"job:loud-{n}" for n in range(20)), "job:quick"):
                await world.happen(topic, 1)
                [first] = await take(hub.subscribe(Request(topic)), 1)
                bookmarks[topic] = str(first.bookmark)
                await world.happen(topic, 2)
            monkeypatch.setattr(StreamReader, "pages", slow)
            loud = [
                asyncio.create_task(take(hub.subscribe(Request(topic, "loud", bookmark)), 1, 20))
                for topic, bookmark in bookmarks.items()
                if topic != "job:quick"
            ]
            await asyncio.sleep(0.05)
            quick = hub.subscribe(Request("job:quick", "quiet", bookmarks["job:quick"]))
            try:
                assert numbers(await take(quick, 1, 5)) == [2]
            finally:
                over.set()
                await asyncio.gather(*loud)


class TestFloods:
    async def test_a_topic_that_is_written_all_the_time_is_read_at_a_pace_and_nothing_is_missed(
        self, world, monkeypatch
    ):
        reads: list[str] = []
        pages = StreamReader.pages

        async def counted(self, after, run):
            reads.extend(after)
            return await pages(self, after, run)

        async with world.started_hub() as hub:
            loud = await opened(hub, Request("job:loud"))
            monkeypatch.setattr(StreamReader, "pages", counted)
            began = asyncio.get_running_loop().time()
            for number in range(1, 101):
                await world.announce("job:loud", number)
            assert numbers(await take(loud, 100)) == list(range(1, 101))
            seconds = asyncio.get_running_loop().time() - began
            assert reads.count("job:loud") <= seconds / 0.05 + 2
