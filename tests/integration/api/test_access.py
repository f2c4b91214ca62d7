"""Who may call what: every role at every address, as the table says, over HTTP."""

import re

import jwt
import pytest
from fastapi import APIRouter
from starlette.routing import Route
from tests.support.edge import SECRET, bearer, token

from penstock.api import guard
from penstock.api.access import ACCESS
from penstock.api.guard import GuardedRoute, every_route_declared
from penstock.kernel.identity import Role

STREAMS = {"/api/v1/dashboard/events"}  # never end: exercised over a socket in test_dashboard.py
THERE = "3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11"  # an id of the right shape; nothing has it
PLACES = sorted(ACCESS, key=lambda place: (place[1], place[0]))
GUARDED = [place for place in PLACES if ACCESS[place] is not None]
DENIALS = {"TOKEN_MISSING", "TOKEN_INVALID", "ROLE_DENIED", "ORIGIN_DENIED"}


def address(path: str) -> str:
    return re.sub(r"\{\w+\}", "1", path.replace("{job_id}", THERE))


def cookie(role: str) -> dict[str, str]:
    return {"Cookie": f"penstock_session={token(role)}"}


async def code_of(client, place, **options):
    method, path = place
    headers = {"Tus-Resumable": "1.0.0", **options.pop("headers")}
    answer = await client.request(method, address(path), headers=headers, **options)
    if method == "HEAD":
        return answer.status_code, answer.headers.get("x-error-code")
    is_error = answer.headers.get("content-type") == "application/json" and answer.status_code >= 400
    return answer.status_code, answer.json().get("code") if is_error else None


class TestTheMatrix:
    @pytest.mark.parametrize("role", list(Role))
    async def test_a_role_gets_in_where_the_table_says_and_nowhere_else(self, client, role):
        seen = {}
        for place in PLACES:
            allowed = ACCESS[place] is None or role in ACCESS[place]
            if allowed and place[1] in STREAMS:
                continue
            status, code = await code_of(client, place, headers=bearer(role))
            assert status < 500, place
            seen[place] = (code not in DENIALS) == allowed
        assert all(seen.values()), [place for place, right in seen.items() if not right]
        assert len(seen) >= len(PLACES) - len(STREAMS)

    @pytest.mark.parametrize(
        ("headers", "expected"),
        [
            ({}, "TOKEN_MISSING"),
            ({"Authorization": "Bearer nonsense"}, "TOKEN_INVALID"),
            ({"Authorization": "Basic YTpi"}, "TOKEN_INVALID"),
            ({"Authorization": "Bearer"}, "TOKEN_INVALID"),
            ({"Authorization": f"Bearer {token(seconds=-60)}"}, "TOKEN_INVALID"),
            ({"Cookie": "penstock_session="}, "TOKEN_MISSING"),
        ],
        ids=["none", "nonsense", "basic", "empty", "expired", "empty cookie"],
    )
    async def test_without_a_good_token_nothing_that_is_guarded_opens(self, client, headers, expected):
        assert GUARDED
        for place in GUARDED:
            assert await code_of(client, place, headers=headers) == (401, expected), place

    async def test_a_token_with_an_unknown_role_opens_nothing(self, client):
        forged = jwt.encode({"sub": "a", "merchant_id": "m", "role": "root", "exp": 4e9}, SECRET, algorithm="HS256")
        for place in GUARDED:
            status, code = await code_of(client, place, headers={"Authorization": f"Bearer {forged}"})
            assert (status, code) == (401, "TOKEN_INVALID"), place

    async def test_what_is_public_asks_for_nothing_even_with_a_bad_token(self, client):
        for place in set(PLACES) - set(GUARDED):
            status, code = await code_of(client, place, headers={"Authorization": "Bearer nonsense"})
            assert code not in DENIALS, (place, status)


class TestTheTable:
    def test_a_route_without_a_row_stops_the_start(self):
        router = APIRouter(route_class=GuardedRoute)
        router.add_api_route("/forgotten", lambda: None)
        with pytest.raises(LookupError, match="GET /forgotten is a route but has no row"):
            every_route_declared(router.routes)

    def test_a_row_without_a_route_stops_the_start(self, app, monkeypatch):
        monkeypatch.setattr(guard, "ACCESS", {**ACCESS, ("GET", "/gone"): None})
        with pytest.raises(LookupError, match=r"GET /gone has a row in .* but is no route"):
            every_route_declared(app.routes)

    def test_a_route_that_nobody_guards_stops_the_start(self):
        with pytest.raises(LookupError, match="not a GuardedRoute"):
            every_route_declared([Route("/bare", lambda _: None)])


class TestCookies:
    """A browser sends the cookie whoever made it ask."""

    async def test_the_session_cookie_stands_for_a_token(self, client):
        answer = await client.get("/api/v1/me", headers=cookie("admin"))
        assert answer.json()["role"] == "admin"

    async def test_a_header_counts_more_than_a_cookie(self, client):
        answer = await client.get("/api/v1/me", headers=bearer("operator") | cookie("uploader"))
        assert answer.json()["role"] == "operator"

    ORIGINS = (
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://penstock.test"}, False),
        ({"Origin": "http://penstock.test"}, True),
        ({"Origin": "http://evil.test"}, False),
        ({"Origin": "http://penstock.test.evil.test"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://["}, False),
        ({}, False),
    )

    async def test_with_a_cookie_a_change_must_come_from_our_own_pages(self, client):
        place = ("POST", "/api/v1/deliveries/{delivery_id}/redeliver")
        for headers, passes in self.ORIGINS:
            answer = await code_of(client, place, headers=headers | cookie("admin"))
            assert answer == ((404, "NOT_FOUND") if passes else (403, "ORIGIN_DENIED")), headers

    async def test_with_a_header_the_origin_does_not_matter(self, client):
        place = ("POST", "/api/v1/deliveries/{delivery_id}/redeliver")
        headers = {**bearer("admin"), "Origin": "http://elsewhere.test"}
        assert await code_of(client, place, headers=headers) == (404, "NOT_FOUND")
