"""Signing in with a link, with a code, and out again."""

from datetime import timedelta

import pytest
from tests.support.edge import bearer

from penstock.api.guard import COOKIE
from penstock.kernel.identity import Caller, Role, make_sign_in_code

ALICE = Caller("alice", "m-1", Role.OPERATOR)


@pytest.fixture
async def code(database):
    async with database.transaction() as tx:
        return await make_sign_in_code(tx, ALICE, timedelta(minutes=5))


class TestTheLink:
    async def test_it_signs_the_browser_in_and_goes_to_the_start_page(self, client, code):
        answer = await client.get("/sign-in", params={"code": code})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert (await client.get("/api/v1/me")).json() == {
            "user_id": "alice",
            "merchant_id": "m-1",
            "role": "operator",
            "sees_all_merchants": True,
        }
        assert "alice" in (await client.get("/")).text

    async def test_scripts_and_other_sites_cannot_use_the_cookie(self, client, code):
        cookie = (await client.get("/sign-in", params={"code": code})).headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Max-Age=43200" in cookie
        assert "Secure" not in cookie

    async def test_behind_https_the_cookie_stays_on_https(self, client, code):
        answer = await client.get("/sign-in", params={"code": code}, headers={"X-Forwarded-Proto": "https"})
        assert "Secure" in answer.headers["set-cookie"]

    async def test_opened_again_by_a_browser_that_is_signed_in_it_goes_to_the_start_page(self, client, code):
        await client.get("/sign-in", params={"code": code})
        answer = await client.get("/sign-in", params={"code": code})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "set-cookie" not in answer.headers

    async def test_a_used_link_is_told_to_people_on_a_page_in_their_language(self, client, code):
        await client.get("/sign-in", params={"code": code})
        client.cookies.clear()
        headers = {"Accept": "text/html", "Accept-Language": "zh"}
        answer = await client.get("/sign-in", params={"code": code}, headers=headers)
        assert answer.status_code == 401
        assert "登录链接已使用或已过期" in answer.text
        assert "set-cookie" not in answer.headers

    async def test_a_used_link_is_told_to_programs_as_json(self, client, code):
        await client.get("/sign-in", params={"code": code})
        client.cookies.clear()
        answer = await client.get("/sign-in", params={"code": code})
        assert (answer.status_code, answer.json()["code"]) == (401, "SIGN_IN_CODE_INVALID")


class TestTheCode:
    async def test_it_buys_a_token_once(self, client, code):
        answer = await client.post("/api/v1/session", json={"code": code})
        assert answer.status_code == 201
        assert answer.json()["expires_in"] == 43200
        headers = {"Authorization": f"{answer.json()['token_type']} {answer.json()['access_token']}"}
        assert (await client.get("/api/v1/me", headers=headers)).json()["user_id"] == "alice"
        assert (await client.post("/api/v1/session", json={"code": code})).status_code == 401


class TestSigningOut:
    async def test_the_cookie_is_forgotten(self, client, code):
        await client.get("/sign-in", params={"code": code})
        answer = await client.delete("/api/v1/session", headers={"Sec-Fetch-Site": "same-origin"})
        assert answer.status_code == 204
        assert (await client.get("/api/v1/me")).status_code == 401

    async def test_a_copy_of_the_cookie_opens_nothing_afterwards(self, client, code):
        await client.get("/sign-in", params={"code": code})
        copy = {"Cookie": f"{COOKIE}={client.cookies[COOKIE]}"}
        await client.delete("/api/v1/session", headers={"Sec-Fetch-Site": "same-origin"})
        assert client.cookies.get(COOKIE) is None
        answer = await client.get("/api/v1/me", headers=copy)
        assert (answer.status_code, answer.json()["code"]) == (401, "TOKEN_INVALID")
        answer = await client.get(
            "/api/v1/me", headers={"Authorization": copy["Cookie"].replace(f"{COOKIE}=", "Bearer ")}
        )
        assert answer.status_code == 401

    async def test_a_token_that_was_bought_with_a_code_can_be_ended_too(self, client, code):
        token = (await client.post("/api/v1/session", json={"code": code})).json()["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        assert (await client.get("/api/v1/me", headers=headers)).status_code == 200
        assert (await client.delete("/api/v1/session", headers=headers)).status_code == 204
        assert (await client.get("/api/v1/me", headers=headers)).status_code == 401
        assert (await client.delete("/api/v1/session", headers=headers)).status_code == 204

    async def test_one_session_ends_and_not_the_others_of_its_user(self, client, database):
        codes = []
        for _ in range(2):
            async with database.transaction() as tx:
                codes.append(await make_sign_in_code(tx, ALICE, timedelta(minutes=5)))
        answers = [await client.post("/api/v1/session", json={"code": each}) for each in codes]
        first, second = ({"Authorization": f"Bearer {answer.json()['access_token']}"} for answer in answers)
        await client.delete("/api/v1/session", headers=first)
        assert (await client.get("/api/v1/me", headers=first)).status_code == 401
        assert (await client.get("/api/v1/me", headers=second)).status_code == 200

    async def test_a_token_of_a_script_is_no_session_and_goes_on(self, client, database):
        assert (await client.delete("/api/v1/session", headers=bearer())).status_code == 204
        assert (await client.get("/api/v1/me", headers=bearer())).status_code == 200

    async def test_another_site_cannot_sign_somebody_out(self, client, code):
        await client.get("/sign-in", params={"code": code})
        answer = await client.delete("/api/v1/session", headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.json()["code"] == "ORIGIN_DENIED"
