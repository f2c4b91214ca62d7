"""Servers that hang (SIGSTOP): connected, silent. Roles wait for them, and still leave when they are told to."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.chaos.load import Writer
from tests.chaos.stage import ROOT, Stage
from tests.chaos.verdict import judge, settled


@contextmanager
def hung(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def connections_of_roles(stage: Stage) -> list[int]:
    return [pid for (pid,) in stage.query("select pid from pg_stat_activity where application_name like 'penstock-%'")]


@pytest.mark.timeout(120)
class TestHanging:
    def test_roles_that_start_while_redis_hangs_wait_and_lose_nothing(self, stage: Stage):
        writer = Writer(stage.postgres.url, 5, [f"hung-{n}" for n in range(4)])
        with hung([stage.redis.pid]):
            stage.start("relay", "scheduler")
            stage.start("worker", "worker")
            writer.start()
            time.sleep(6)
            assert all(process.poll() is None for process in stage.actors.values()), stage.logs()
        writer.finish()
        stage.wait_for(lambda: settled(stage), 30, "outbox and deliveries empty")
        judge(stage, [writer])

    @pytest.mark.parametrize("role", ["scheduler", "worker"])
    def test_a_role_leaves_in_time_though_postgres_hangs(self, stage: Stage, role: str):
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock", role],
            cwd=ROOT,
            env=stage.environment(role) | {"PENSTOCK_SHUTDOWN_SECONDS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stage.actors[role] = process
        stage.wait_for(lambda: len(connections_of_roles(stage)) > 0, 20, "the role is connected")
        time.sleep(0.5)
        with hung(connections_of_roles(stage)):
            time.sleep(1.5)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            process.wait(1 + 5 + 4)
