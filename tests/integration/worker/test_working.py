"""The worker role: told to stop, it finishes what it holds and takes nothing more."""

import asyncio
import os
import subprocess
import sys

import psycopg
import pytest

from penstock.bootstrap import load_settings, started
from penstock.kernel.db import fetch_all, fetch_one
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce
from penstock.kernel.reactions import Reaction
from penstock.worker import run_worker


class TestStopping:
    async def test_what_is_in_hand_is_finished_and_the_rest_is_left_to_others(self, environment):
        begun, go_on, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slow(tx, event):
            begun.set()
            await go_on.wait()

        async with started(load_settings(), role="worker", reactions=[Reaction("slow", "thing.*", slow)]) as parts:
            async with parts.database.transaction() as tx:
                await announce(tx, Event("thing.made", "thing", "a"), Event("thing.used", "thing", "a"))
            while await parts.relay().relay_once():
                pass
            working = asyncio.create_task(run_worker(parts, stop))
            async with asyncio.timeout(20):
                await begun.wait()
                stop.set()
                await asyncio.sleep(0.2)  # it knows by now that nothing more is to be begun
                go_on.set()
                await working
            async with parts.database.transaction() as tx:
                rows = await fetch_all(
                    tx, "select done_at is not null as done, leased_until from outbox_deliveries order by event_id"
                )
                worker = await fetch_one(tx, "select status from worker_heartbeats")
        assert [(row["done"], row["leased_until"]) for row in rows] == [(True, None), (False, None)]
        assert worker["status"] == "DEAD"


class TestRefusing:
    @pytest.mark.parametrize(("role", "time"), [("worker", 1), ("worker", 2), ("scheduler", 1)])
    def test_a_database_without_tables_ends_the_role_with_a_sentence(self, environment, postgres, role, time):
        """Twice for the worker: a failure may meet ARQ while it connects, which once left it hanging."""
        with psycopg.connect(postgres.url, autocommit=True) as connection:
            connection.execute("create database without_tables")
        url = postgres.url.replace("/postgres?", "/without_tables?")
        try:
            done = subprocess.run(
                [sys.executable, "-m", "penstock", role],
                env={**os.environ, "PENSTOCK_DATABASE_URL": url, "PYTHONPATH": os.pathsep.join(sys.path)},
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
        finally:
            with psycopg.connect(postgres.url, autocommit=True) as connection:
                connection.execute("drop database without_tables with (force)")
        assert done.returncode == 1
        *logged, sentence = done.stderr.splitlines()
        assert "penstock migrate" in sentence
        assert all(line.startswith("{") for line in logged), "nothing but log lines before it"
