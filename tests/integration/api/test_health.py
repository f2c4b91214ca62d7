"""Health: what it says while things are well, away, frozen or out of date."""

import asyncio
import threading
import time

import httpx
import pytest
from tests.support.clock import TurnedClock
from tests.support.edge import edge_parts, free_port

from penstock.api.app import create_app
from penstock.embedded import EmbeddedRedis
from penstock.kernel import error_codes
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.health import (
    ComponentStatus,
    Finding,
    Health,
    HealthSettings,
    HealthStatus,
    disk_check,
    schema_check,
    store_check,
)
from penstock.kernel.redis import connect
from penstock.kernel.telemetry import metrics


class TestHealthy:
    async def test_every_component_is_named_with_its_status_and_latency(self, client):
        answer = await client.get("/health")
        assert answer.status_code == 200
        assert answer.json()["status"] == "healthy"
        found = answer.json()["components"]
        assert {name: part["status"] for name, part in found.items()} == {"database": "ok", "redis": "ok", "disk": "ok"}
        assert all(part["latency_ms"] >= 0 for part in found.values())

    async def test_alive_and_ready(self, client):
        assert (await client.get("/health/live")).json() == {"status": "alive"}
        answer = await client.get("/health/ready")
        assert (answer.status_code, set(answer.json()["components"])) == (200, {"database", "schema"})

    async def test_metrics_count_by_route_template(self, client):
        await client.get("/docs/nothing-1")
        await client.get("/docs/nothing-2")
        await client.get("/no/such/place")
        answer = await client.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain")
        assert 'gateway_request_total{endpoint="/docs/{asset}",method="GET",status_code="404"}' in answer.text
        assert 'gateway_request_total{endpoint="unmatched",method="GET",status_code="404"}' in answer.text
        assert "nothing-1" not in answer.text
        assert 'gateway_request_duration_seconds_bucket{endpoint="/docs/{asset}",le="0.25",method="GET"}' in answer.text


class TestRedisAway:
    async def test_killing_it_degrades_within_five_seconds_and_starting_it_heals(self, home, database, keys):
        (home / "second").mkdir(mode=0o755)
        server = EmbeddedRedis(home / "second")
        server.start()
        client = connect(server.url)
        try:
            async with edge_parts(database, client, keys) as parts:
                app = create_app(parts)
                assert (await _get(app, "/health")).json()["status"] == "healthy"
                server.kill()
                assert await _seconds_until(app, "degraded") < 5
                server.start()
                assert await _seconds_until(app, "healthy") < 5
        finally:
            await client.aclose()
            server.stop()

    async def test_the_edge_goes_on_serving(self, home, database, redis_client, keys):
        away = connect(f"unix://{home}/nobody-listens.sock")
        async with edge_parts(database, away, keys) as parts:
            answer = await _get(create_app(parts), "/health")
        assert answer.status_code == 200
        assert (answer.json()["status"], answer.json()["components"]["redis"]["status"]) == ("degraded", "down")
        await away.aclose()


class TestTheDatabaseAway:
    async def test_nothing_can_be_promised(self, redis_client, keys):
        nowhere = Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none", name="test", size=1)
        await nowhere.open()
        started = time.monotonic()
        async with edge_parts(nowhere, redis_client, keys) as parts:
            app = create_app(parts)
            whole, ready, page = await asyncio.gather(*(_get(app, path) for path in ("/health", "/health/ready", "/")))
            for answer in (whole, ready):
                assert (answer.status_code, answer.json()["status"]) == (503, "unhealthy")
                assert answer.json()["components"]["database"]["status"] == "down"
            assert time.monotonic() - started < 5
            assert (await _get(app, "/health/live")).status_code == 200
            assert "Unhealthy" in page.text
            await app.state.readiness.close()
        await nowhere.close()


class TestFrozen:
    """A server that neither answers nor refuses is the worst kind of away."""

    async def test_a_frozen_component_is_down_in_time_and_asked_only_once(self):
        asked, thawed = 0, asyncio.Event()

        async def frozen() -> Finding:
            nonlocal asked
            asked += 1
            await thawed.wait()
            return Finding()

        clock = TurnedClock()
        health = Health({"frozen": frozen}, clock, vital=frozenset(), patience=0.05)
        for _ in range(3):
            report = await health.report()
            assert report.components["frozen"].reason == "no answer within 0.05 s"
            clock.advance(1)
        assert asked == 1
        thawed.set()
        assert (await health.report()).status is HealthStatus.HEALTHY

    async def test_many_who_ask_at_once_share_one_answer(self):
        asked = 0

        async def counted() -> Finding:
            nonlocal asked
            asked += 1
            await asyncio.sleep(0)
            return Finding()

        health = Health({"counted": counted}, TurnedClock(), vital=frozenset())
        await asyncio.gather(*(health.report() for _ in range(50)))
        assert asked == 1


class TestOtherComponents:
    async def test_a_disk_that_fills_up(self, home):
        huge = 1 << 60
        for settings, status in (
            (HealthSettings(disk_low=2, disk_full=1), ComponentStatus.OK),
            (HealthSettings(disk_low=huge, disk_full=1), ComponentStatus.DEGRADED),
            (HealthSettings(disk_low=huge, disk_full=huge), ComponentStatus.DOWN),
        ):
            assert (await disk_check(home / "not" / "yet" / "there", settings)()).status is status

    async def test_a_database_without_our_tables_is_not_ready(self, database):
        assert (await schema_check(database, "0001")()).status is ComponentStatus.OK
        assert (await schema_check(database, "0000")()).status is ComponentStatus.OK
        finding = await schema_check(database, "9999")()
        assert finding.status is ComponentStatus.DOWN
        assert "needs 9999" in finding.reason

    @pytest.mark.parametrize(
        ("code", "status"), [(error_codes.NOT_FOUND, "ok"), (error_codes.STORE_UNAVAILABLE, "down")]
    )
    async def test_a_store_that_says_there_is_nothing_is_well(self, code, status):
        class Store:
            async def head(self, key: str) -> object:
                raise PenstockError(code, key=key)

        health = Health({"object_store": store_check(Store())}, TurnedClock(), vital=frozenset())
        assert (await health.report()).components["object_store"].status == status


async def _seconds_until(app, status: str) -> float:
    started = time.monotonic()
    while (await _get(app, "/health")).json()["status"] != status:
        assert time.monotonic() - started < 10
        await asyncio.sleep(0.1)
    return time.monotonic() - started


async def _get(app, path):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://penstock.test") as client:
        return await client.get(path)


class TestTheCostOfMetrics:
    async def test_one_answer_is_shared_for_a_second_and_made_off_the_event_loop(self, app, client, monkeypatch):
        made = []

        def slow() -> bytes:
            made.append(threading.current_thread())
            time.sleep(0.2)
            return b"gateway_request_total 1.0\n"

        monkeypatch.setattr(metrics, "exposition", slow)
        monkeypatch.setitem(app.state._state, "exposition", metrics.Exposition(shared_seconds=30))
        asking = [asyncio.create_task(client.get("/metrics")) for _ in range(20)]
        assert (await client.get("/health/live")).status_code == 200
        assert not any(one.done() for one in asking)
        assert {(await one).content for one in asking} == {b"gateway_request_total 1.0\n"}
        await client.get("/metrics")
        assert len(made) == 1
        assert made[0] is not threading.main_thread()
        app.state.exposition.close()
