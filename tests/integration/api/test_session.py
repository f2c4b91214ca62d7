"""Signing in with a link, with a code, and out again."""

from datetime import timedelta

import pytest

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
        bearer = {"Authorization": f"{answer.json()['token_type']} {answer.json()['access_token']}"}
        assert (await client.get("/api/v1/me", headers=bearer)).json()["user_id"] == "alice"
        assert (await client.post("/api/v1/session", json={"code": code})).status_code == 401


class TestSigningOut:
    async def test_the_cookie_is_forgotten(self, client, code):
        await client.get("/sign-in", params={"code": code})
        answer = await client.delete("/api/v1/session", headers={"Sec-Fetch-Site": "same-origin"})
        assert answer.status_code == 204
        assert (await client.get("/api/v1/me")).status_code == 401

    async def test_another_site_cannot_sign_somebody_out(self, client, code):
        await client.get("/sign-in", params={"code": code})
        answer = await client.delete("/api/v1/session", headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.json()["code"] == "ORIGIN_DENIED"
