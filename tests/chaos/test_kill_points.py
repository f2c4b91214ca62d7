"""Killed exactly between two lines: what is lost, what is repeated? Nothing, and only what may be."""

import time

import psycopg
import pytest

from tests.chaos.load import Writer
from tests.chaos.stage import Stage
from tests.chaos.verdict import judge, settled

POINTS = {
    "relay.published": "scheduler",
    "relay.marked": "scheduler",
    "relay.committed": "scheduler",
    "scheduler.worked": "scheduler",
    "delivery.claimed": "worker",
    "delivery.handled": "worker",
    "delivery.sent": "worker",
}


class TestKilledAt:
    @pytest.mark.parametrize("point", POINTS)
    def test_a_kill_at_this_point_breaks_no_promise(self, stage: Stage, point: str):
        victim, other = POINTS[point], "worker" if POINTS[point] == "scheduler" else "scheduler"
        writer = Writer(stage.postgres.url, 1, [f"{point}-{n}" for n in range(4)], moves_per_second=40)
        writer.start()
        soon = {"PENSTOCK_DELIVERY_LEASE_SECONDS": "1"}  # what the dead one held is free
        stage.start("other", other, **soon)
        for round_ in range(2):
            process = stage.start("victim", victim, PENSTOCK_FAILPOINT=f"{point}=kill@{round_ + 1}", **soon)
            process.wait(20)
            assert process.returncode == -9, stage.logs()
            stage.kills += 1
        writer.finish()
        stage.start("victim", victim, **soon)
        stage.wait_for(lambda: settled(stage), 30, "outbox and deliveries empty")
        judge(stage, [writer])


class TestPaused:
    """SIGSTOP past every limit, then SIGCONT: the world has moved on and the sleeper must not write."""

    def test_a_paused_scheduler_cannot_write_late(self, stage: Stage):
        self._take_over(stage, "scheduler", "select count(*) from chaos_duty")
        tokens = [token for (token,) in stage.query("select token from chaos_duty order by id")]
        assert tokens == sorted(set(tokens))

    def test_a_paused_relay_holds_nobody_up_for_long_and_repeats_nothing(self, stage: Stage):
        writer = Writer(stage.postgres.url, 2, [f"paused-{n}" for n in range(4)], moves_per_second=40)
        writer.start()
        stage.start("worker", "worker")
        self._take_over(stage, "scheduler", "select count(*) from chaos_effects")
        writer.finish()
        stage.start("sleeper", "scheduler")
        stage.wait_for(lambda: settled(stage), 30, "outbox and deliveries empty")
        judge(stage, [writer])

    def test_a_paused_worker_takes_no_second_effect(self, stage: Stage):
        writer = Writer(stage.postgres.url, 3, [f"slow-{n}" for n in range(4)], moves_per_second=40)
        writer.start()
        stage.start("relay", "scheduler")
        self._take_over(stage, "worker", "select count(*) from chaos_effects")
        writer.finish()
        stage.start("sleeper", "worker")
        stage.wait_for(lambda: settled(stage), 30, "outbox and deliveries empty")
        judge(stage, [writer])

    def _take_over(self, stage: Stage, role: str, progress: str) -> None:
        """Pause one mid-work, let another of the role get on, wake the first, end both."""
        stage.start("sleeper", role)
        begun = self._count(stage, progress)
        stage.wait_for(lambda: self._count(stage, progress) > begun, 20, f"{role} works")
        stage.pause("sleeper")
        time.sleep(0.2)
        at_pause = self._count(stage, progress)
        stage.start("stand-in", role)
        stage.wait_for(lambda: self._count(stage, progress) > at_pause, 20, f"another {role} goes on")
        time.sleep(1.0)
        stage.resume("sleeper")
        time.sleep(0.5)
        for name in ("sleeper", "stand-in"):
            stage.kill(name)

    def _count(self, stage: Stage, query: str) -> int:
        with psycopg.connect(stage.postgres.url) as connection:
            [(number,)] = connection.execute(query).fetchall()
        return int(number)
