"""Heartbeats: alive while reporting, suspect after 60 s, dead after 90 s, back when it speaks again."""

import asyncio
from datetime import timedelta

import pytest

from penstock.embedded import EmbeddedRedis
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.redis import connect
from penstock.kernel.workers import Heartbeat, WorkerSettings, WorkerStatus, all_workers, judge_silence

SETTINGS = WorkerSettings()


@pytest.fixture
def heartbeat(database, redis_client, keys) -> Heartbeat:
    return Heartbeat(database, redis_client, keys, SETTINGS, "w1")


async def silent_for(database: Database, seconds: int) -> dict[str, WorkerStatus]:
    async with database.transaction() as tx:
        await tx.execute("update worker_heartbeats set last_heartbeat = now() - make_interval(secs => %s)", (seconds,))
        return await judge_silence(tx, SETTINGS)


async def history(database: Database) -> list[tuple[str | None, str, str]]:
    async with database.transaction() as tx:
        rows = await fetch_all(tx, "select * from state_transitions order by id")
    return [(row["from_status"], row["to_status"], row["trigger"]) for row in rows]


class TestLife:
    async def test_the_whole_life_of_a_worker_is_on_record(self, database, heartbeat):
        await heartbeat.report()
        assert await silent_for(database, 59) == {}
        assert await silent_for(database, 61) == {"w1": WorkerStatus.SUSPECT}
        assert await silent_for(database, 70) == {}
        assert await silent_for(database, 91) == {"w1": WorkerStatus.DEAD}
        await heartbeat.report()
        await heartbeat.leave()
        await heartbeat.leave()
        assert await history(database) == [
            (None, "ALIVE", "started"),
            ("ALIVE", "SUSPECT", "heartbeat_scan"),
            ("SUSPECT", "DEAD", "heartbeat_scan"),
            ("DEAD", "ALIVE", "came_back"),
            ("ALIVE", "DEAD", "left"),
        ]

    async def test_the_long_dead_are_forgotten_but_not_their_history(self, database, heartbeat):
        await heartbeat.report()
        await silent_for(database, 91)
        await silent_for(database, 23 * 3600)
        async with database.transaction() as tx:
            assert len(await all_workers(tx)) == 1
        await silent_for(database, 25 * 3600)
        async with database.transaction() as tx:
            assert await all_workers(tx) == []
        assert len(await history(database)) == 2
        await heartbeat.report()
        assert (await history(database))[-1] == (None, "ALIVE", "started")

    async def test_redis_shows_the_worker_for_90_seconds(self, heartbeat, redis_client, keys):
        await heartbeat.report()
        assert 0 < await redis_client.ttl(keys.heartbeat("w1")) <= 90
        await heartbeat.leave()
        assert not await redis_client.exists(keys.heartbeat("w1"))

    async def test_without_redis_the_worker_still_counts_as_alive(self, database, keys, home):
        gone = connect(EmbeddedRedis(home / "nowhere").url)
        await Heartbeat(database, gone, keys, SETTINGS, "w2").report()
        async with database.transaction() as tx:
            [row] = await all_workers(tx)
        assert (row["worker_id"], row["status"]) == ("w2", "ALIVE")
        await gone.aclose()

    async def test_running_reports_and_says_goodbye(self, database, redis_client, keys):
        settings = WorkerSettings(heartbeat_interval_sec=timedelta(milliseconds=20))
        stop = asyncio.Event()
        running = asyncio.create_task(Heartbeat(database, redis_client, keys, settings, "w3").run(stop))
        await asyncio.sleep(0.1)
        stop.set()
        await running
        assert await history(database) == [(None, "ALIVE", "started"), ("ALIVE", "DEAD", "left")]

    def test_two_processes_of_one_host_have_different_names(self):
        assert SETTINGS.name() != SETTINGS.name()
        assert WorkerSettings(worker_id="pod-7").name() == "pod-7"
