"""A merchant's webhook endpoints over HTTP; they are for its own callers only."""

import uuid

from tests.support.edge import bearer

PATH = "/api/v1/webhooks"
HOOK = {"url": "https://127.0.0.1/hook", "event_types": ["job.*"]}


async def urls(client, headers):
    return [row["url"] for row in (await client.get(PATH, headers=headers)).json()["webhooks"]]


class TestRegistering:
    async def test_the_secret_is_shown_once(self, client, database):
        made = await client.post(PATH, json=HOOK, headers=bearer())
        assert made.status_code == 201
        assert made.json()["secret"].startswith("whsec_")
        (row,) = (await client.get(PATH, headers=bearer())).json()["webhooks"]
        assert (row["endpoint_id"], row["created_by"]) == (made.json()["endpoint_id"], "alice")
        assert "secret" not in row

    async def test_a_wrong_address_or_event_type_is_refused(self, client, database):
        answer = await client.post(PATH, json={"url": "ftp://example.com"}, headers=bearer())
        assert (answer.status_code, answer.json()["code"]) == (400, "WEBHOOK_URL_REFUSED")
        answer = await client.post(PATH, json={**HOOK, "event_types": ["Job done"]}, headers=bearer())
        assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID")
        assert await urls(client, bearer()) == []

    async def test_events_whose_names_have_more_parts_can_be_asked_for(self, client, database):
        wanted = ["video.upload.completed", "video.upload.*", "job.*"]
        answer = await client.post(PATH, json={**HOOK, "event_types": wanted}, headers=bearer())
        assert (answer.status_code, answer.json()["event_types"]) == (201, wanted)

    async def test_a_removed_endpoint_is_gone(self, client, database):
        made = (await client.post(PATH, json=HOOK, headers=bearer())).json()["endpoint_id"]
        assert (await client.delete(f"{PATH}/{made}", headers=bearer())).status_code == 204
        assert await urls(client, bearer()) == []
        assert (await client.delete(f"{PATH}/{made}", headers=bearer())).json()["code"] == "NOT_FOUND"


class TestMerchants:
    async def test_one_neither_sees_nor_removes_anothers(self, client, database):
        made = (await client.post(PATH, json=HOOK, headers=bearer(merchant="m-1"))).json()["endpoint_id"]
        assert await urls(client, bearer(merchant="m-2")) == []
        answer = await client.delete(f"{PATH}/{made}", headers=bearer(merchant="m-2"))
        assert answer.json()["code"] == "NOT_FOUND"
        assert await urls(client, bearer(merchant="m-1")) == [HOOK["url"]]

    async def test_nobody_registers_lists_or_removes_for_another_merchant(self, client, database):
        made = (await client.post(PATH, json=HOOK, headers=bearer(merchant="m-2"))).json()["endpoint_id"]
        other = {"impersonate_merchant_id": "m-2"}
        for role in ("uploader", "admin"):
            headers = bearer(role, "m-1")
            for answer in (
                await client.get(PATH, params=other, headers=headers),
                await client.post(PATH, json={**HOOK, **other}, headers=headers),
                await client.delete(f"{PATH}/{made}", params=other, headers=headers),
            ):
                assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID")
        assert await urls(client, bearer(merchant="m-2")) == [HOOK["url"]]
        assert await urls(client, bearer(merchant="m-1")) == []

    async def test_an_unknown_id_is_not_found(self, client, database):
        assert (await client.delete(f"{PATH}/{uuid.uuid4()}", headers=bearer())).status_code == 404
