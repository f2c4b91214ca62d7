"""The plain JSON source: every pagination, every sign-in."""

import time
from itertools import pairwise

import httpx
import pytest
from tests.standins import KEY, Library, standin
from tests.standins.generic import CLIENT_ID, CLIENT_SECRET, signature


@pytest.fixture
async def api(library: Library):
    async with standin("generic", library) as api:
        yield api


class TestPaging:
    @pytest.mark.parametrize("shape", ["", "ids/"])
    async def test_every_kind_gives_every_record_once(self, api, client: httpx.AsyncClient, shape: str):
        for kind in ("offset", "page0", "page1", "token", "url"):
            seen = await self.read(client, f"{api.url}/none/{shape}{kind}", kind)
            assert len(seen) == len(set(seen))
            assert set(seen) == set(api.records_at(api.library.now)), kind

    async def read(self, client: httpx.AsyncClient, url: str, kind: str) -> list[str]:
        seen: list[str] = []
        query: dict = {"limit": 400}
        for number in range(100):
            query |= {"offset": number * 400} if kind == "offset" else {"page": number + (kind == "page1")}
            answer = (await client.get(url, params=None if "?" in url else query)).json()
            seen += [item if isinstance(item, str) else item["id"] for item in answer["items"]]
            if not answer["has_more"]:
                break
            query["token"] = answer.get("next")
            url = answer.get("next_url") or url
        return seen

    async def test_time_windows_are_half_open(self, api, client: httpx.AsyncClient):
        edges = ["2025-12-31T00:00:00Z", "2026-01-03T00:00:00Z", "2026-01-06T00:00:00Z", "2026-01-31T00:00:00Z"]
        seen = []
        for first, end in pairwise(edges):
            answer = await client.get(f"{api.url}/none/time", params={"from": first, "to": end, "limit": 1000})
            assert not answer.json()["has_more"]
            seen += [item["id"] for item in answer.json()["items"]]
        assert sorted(seen) == sorted(api.records_at(api.library.now))

    async def test_details_by_id_in_query_form_or_json_and_one_alone(self, api, client: httpx.AsyncClient):
        ids = [api.id_of(1), "r-9999999", api.id_of(2)]
        url = f"{api.url}/none/details"
        answers = (
            await client.get(url, params={"ids": ",".join(ids)}),
            await client.post(url, data={"ids": ",".join(ids)}),
            await client.post(url, json={"ids": ids}),
        )
        for answer in answers:
            assert [item["id"] for item in answer.json()["items"]] == [ids[0], ids[2]]
        assert (await client.get(f"{api.url}/none/items/{ids[0]}")).json()["id"] == ids[0]
        assert (await client.get(f"{api.url}/none/items/{ids[1]}")).status_code == 404

    @pytest.mark.parametrize(
        "path", ["offset?limit=1001", "offset?offset=x", "page1?page=0", "token?token=zz", "time", "offset?from=soon"]
    )
    async def test_what_is_wrong_is_refused(self, api, client: httpx.AsyncClient, path: str):
        refused = await client.get(f"{api.url}/none/{path}")
        assert refused.status_code == 400
        assert refused.json()["error"]


class TestSigningIn:
    @pytest.mark.parametrize("who", ["header", "query", "body", "bearer", "oauth2", "signed"])
    async def test_strangers_are_refused(self, api, client: httpx.AsyncClient, who: str):
        assert (await client.get(f"{api.url}/{who}/offset")).status_code == 401

    async def test_a_key_in_its_place_is_accepted(self, api, client: httpx.AsyncClient):
        calls = (
            ("header", {"headers": {"X-Api-Key": KEY}}),
            ("query", {"params": {"api_key": KEY}}),
            ("bearer", {"headers": {"Authorization": f"Bearer {KEY}"}}),
        )
        for who, carried in calls:
            assert (await client.get(f"{api.url}/{who}/offset", **carried)).status_code == 200
        for carried in ({"data": {"api_key": KEY}}, {"json": {"api_key": KEY}}):
            assert (await client.post(f"{api.url}/body/offset", **carried)).status_code == 200
        assert (await client.post(f"{api.url}/body/offset", params={"api_key": KEY})).status_code == 401

    async def test_client_credentials_buy_a_token_that_ends(self, api, client: httpx.AsyncClient):
        form = {"grant_type": "client_credentials", "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
        token = (await client.post(f"{api.url}/oauth2/token", data=form)).json()
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        assert (await client.get(f"{api.url}/oauth2/offset", headers=headers)).status_code == 200
        api.skip(token["expires_in"] + 1)
        assert (await client.get(f"{api.url}/oauth2/offset", headers=headers)).status_code == 401
        refused = await client.post(f"{api.url}/oauth2/token", data={**form, "client_secret": "guess"})
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_client")
        assert api.tokens_issued == 1

    async def test_a_signature_covers_method_address_and_time(self, api, client: httpx.AsyncClient):
        async def status(target: str, stamp: int) -> int:
            signed = signature(CLIENT_SECRET, "GET", "/signed/offset?limit=5", str(stamp))
            headers = {"X-Timestamp": str(stamp), "X-Signature": signed}
            return (await client.get(api.url + target, headers=headers)).status_code

        now = int(time.time())
        assert await status("/signed/offset?limit=5", now) == 200
        assert await status("/signed/offset?limit=6", now) == 401
        assert await status("/signed/offset?limit=5", now - 1000) == 401
