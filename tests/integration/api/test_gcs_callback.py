"""Notifications of the bucket, over HTTP: who is let in, and what each gets for an answer."""

from dataclasses import replace

import httpx
import prometheus_client
import pytest
import structlog
from tests.support.edge import bearer, free_port
from tests.support.pushing import Pusher, notification
from tests.support.shelf import CONTENT, md5_of

from penstock.api.app import create_app
from penstock.api.guard import LARGEST_BODY
from penstock.kernel.db import Database, fetch_all, fetch_one
from penstock.uploads.direct.push_tokens import PushTokens

PATH = "/_/gcs/callback"
WISH = {
    "filename": "f.mp4",
    "size_bytes": len(CONTENT),
    "content_type": "video/mp4",
    "content_md5_hex": md5_of(CONTENT),
}


@pytest.fixture(scope="module")
def pusher():
    with Pusher() as made:
        yield made


@pytest.fixture
async def place(parts, pusher):
    """What the server has; its bucket is the shelf's."""
    pusher.is_away = False
    settings = pusher.settings()
    tokens = PushTokens(settings, parts.settings.identity, parts.clock)
    yield replace(parts, direct=replace(parts.direct, settings=settings), push_tokens=tokens)
    await tokens.close()


@pytest.fixture
async def server(place):
    app = create_app(place)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://penstock.test") as made:
        yield made
    await app.state.readiness.close()


@pytest.fixture
async def facts(server, place):
    """An announced file that is in the bucket."""
    opened = (await server.post("/api/v1/direct-uploads", json=WISH, headers=bearer())).json()
    return place.direct.bucket.put(opened["object_name"], CONTENT)


def counted(outcome):
    return prometheus_client.REGISTRY.get_sample_value("penstock_direct_callback_total", {"outcome": outcome}) or 0


async def row_of(database, table):
    async with database.transaction() as tx:
        return await fetch_one(tx, f"select * from catalog.{table}")


class TestWhoIsLetIn:
    async def test_a_message_without_a_token_is_not_read(self, server, facts, database):
        before = counted("refused")
        answer = await server.post(PATH, content=notification(facts))
        assert (answer.status_code, answer.json()["code"]) == (401, "TOKEN_MISSING")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert (await row_of(database, "uploads"))["status"] == "pending"
        assert counted("refused") == before + 1

    async def test_nor_is_one_of_another_account(self, server, facts, database, pusher):
        for headers in (pusher.headers(email="someone@else.example"), bearer("admin")):
            answer = await server.post(PATH, content=notification(facts), headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "PUSH_TOKEN_INVALID")
        assert (await row_of(database, "uploads"))["status"] == "pending"
        assert await row_of(database, "inbox_events") is None

    async def test_a_message_that_is_too_large_is_refused_when_it_is_known_whose_it_is(self, server, pusher, database):
        async def pieces():
            for _ in range(20):
                yield b"x" * (LARGEST_BODY // 10)

        answer = await server.post(PATH, content=pieces())
        assert (answer.status_code, answer.json()["code"]) == (401, "TOKEN_MISSING")
        answer = await server.post(PATH, content=pieces(), headers=pusher.headers())
        assert (answer.status_code, answer.json()["code"]) == (413, "REQUEST_TOO_LARGE")

    async def test_a_message_may_have_a_mebibyte_and_not_a_byte_more(self, server, pusher):
        answer = await server.post(PATH, content=b"x" * LARGEST_BODY, headers=pusher.headers())
        assert answer.status_code != 413
        answer = await server.post(PATH, content=b"x" * (LARGEST_BODY + 1), headers=pusher.headers())
        assert (answer.status_code, answer.json()["code"]) == (413, "REQUEST_TOO_LARGE")
        assert LARGEST_BODY == 1 << 20


class TestAnswers:
    async def test_the_file_is_there_and_a_repeat_changes_nothing(self, server, facts, database, pusher):
        for outcome in ("completed", "duplicate", "duplicate"):
            before = counted(outcome)
            answer = await server.post(PATH, content=notification(facts), headers=pusher.headers())
            assert (answer.status_code, answer.content) == (204, b"")
            assert counted(outcome) == before + 1
        row = await row_of(database, "uploads")
        assert (row["status"], row["gcs_generation"]) == ("completed", facts.generation)
        async with database.transaction() as tx:
            told = await fetch_all(tx, "select * from outbox_events where event_type = 'video.upload.completed'")
        assert len(told) == 1

    async def test_each_other_outcome_is_acknowledged(self, server, facts, place, database, pusher):
        async def push(body, outcome):
            before = counted(outcome)
            assert (await server.post(PATH, content=body, headers=pusher.headers())).status_code == 204
            assert counted(outcome) == before + 1, outcome

        await push(notification(facts, event="OBJECT_DELETE"), "ignored")
        await push(notification(facts, name="videos/nobody/announced"), "unknown")
        await push(b"not json", "dead")
        await push(b"", "dead")
        await push(notification(facts, generation="7", md5Hash=None), "mismatch")
        await push(notification(facts), "completed")
        await push(notification(facts, generation="8"), "superseded")
        assert (await row_of(database, "uploads"))["status"] == "completed"

    async def test_without_the_key_server_it_must_come_again(self, server, facts, pusher):
        pusher.is_away = True
        answer = await server.post(PATH, content=notification(facts), headers=pusher.headers())
        assert (answer.status_code, answer.json()["code"]) == (503, "SERVICE_UNAVAILABLE")

    async def test_without_the_database_it_must_come_again(self, place, pusher, facts):
        nowhere = Database(f"postgresql://nobody@127.0.0.1:{free_port()}/none", name="test", size=1, wait_seconds=0.2)
        await nowhere.open()
        app = create_app(replace(place, direct=replace(place.direct, database=nowhere)))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://penstock.test") as asking:
            answer = await asking.post(PATH, content=notification(facts), headers=pusher.headers())
        await app.state.readiness.close()
        await nowhere.close()
        assert (answer.status_code, answer.json()["code"]) == (503, "DB_UNAVAILABLE")

    async def test_nothing_secret_is_logged(self, server, facts, pusher):
        headers = pusher.headers(email="someone@else.example")
        with structlog.testing.capture_logs() as logs:
            await server.post(PATH, content=notification(facts), headers=headers)
            await server.post(PATH, content=notification(facts), headers=pusher.headers())
        assert any(line["event"] == "direct.notification_refused" for line in logs)
        assert headers["Authorization"].partition(" ")[2] not in str(logs)
