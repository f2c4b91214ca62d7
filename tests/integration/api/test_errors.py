"""Errors over HTTP: one shape, the reader's language, the right status, nothing that leaks."""

import json

import pytest
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.support.edge import bearer

from penstock.api.http_status import status_of
from penstock.kernel.error_codes import REGISTRY
from penstock.kernel.errors import PenstockError

SHAPE = {"code", "message", "severity", "details", "request_id", "remedy"}


@pytest.fixture
def failing(app):
    """Routes that fail in a chosen way; added after the start, so the access table does not know them."""

    async def fail(request: Request) -> Response:
        raise PenstockError(REGISTRY[request.path_params["code"]], **dict(request.query_params))

    async def wait(_: Request) -> Response:
        raise PenstockError(REGISTRY["RATE_LIMITED"], retry_after=2.2)

    async def odd(_: Request) -> Response:
        raise PenstockError(REGISTRY["NOT_FOUND"], thing=object())

    async def crash(_: Request) -> Response:
        raise RuntimeError("the password is hunter2")

    found = {"/fail/{code}": fail, "/wait": wait, "/odd": odd, "/crash": crash}
    routes = [Route(path, endpoint) for path, endpoint in found.items()]
    app.router.routes.extend(routes)
    yield
    del app.router.routes[-len(routes) :]


@pytest.mark.usefixtures("failing")
class TestEveryCode:
    async def test_each_is_told_in_both_languages_with_its_status(self, client):
        for code in REGISTRY.values():
            for language, message, remedy in (
                ("zh-CN,zh;q=0.9", code.message.zh, code.remedy.zh),
                ("en-GB", code.message.en, code.remedy.en),
            ):
                answer = await client.get(f"/fail/{code.code}?page=3", headers={"Accept-Language": language})
                assert answer.status_code == status_of(code)
                assert answer.json() == {
                    "code": code.code,
                    "message": message,
                    "severity": code.severity.value,
                    "details": {"page": "3"},
                    "request_id": answer.headers["x-request-id"],
                    "remedy": remedy,
                }

    async def test_a_wait_is_also_told_in_the_header(self, client):
        answer = await client.get("/wait")
        assert answer.headers["retry-after"] == "3"

    async def test_a_detail_that_json_does_not_know_is_told_as_text(self, client):
        answer = await client.get("/odd")
        assert answer.status_code == 404
        assert answer.json()["details"]["thing"].startswith("<object")

    async def test_a_token_error_says_how_to_authenticate(self, client):
        assert (await client.get("/fail/TOKEN_MISSING")).headers["www-authenticate"] == "Bearer"


@pytest.mark.usefixtures("failing")
class TestTheUnexpected:
    async def test_it_is_an_internal_error_with_the_request_id_and_nothing_else(self, client):
        with structlog.testing.capture_logs() as logs:
            answer = await client.get("/crash", headers={"X-Request-Id": "my-id-1"})
        assert answer.status_code == 500
        assert set(answer.json()) == SHAPE
        assert answer.json()["code"] == "INTERNAL_ERROR"
        assert answer.json()["request_id"] == answer.headers["x-request-id"] == "my-id-1"
        assert "hunter2" not in answer.text
        assert "Traceback" not in answer.text
        assert [entry["event"] for entry in logs if entry.get("exc_info")] == ["request.failed"]


class TestPeople:
    async def test_who_follow_a_link_get_a_page_in_their_language(self, client):
        headers = {"Accept": "text/html,application/xhtml+xml", "Accept-Language": "zh-CN"}
        for path, status, said in (("/nowhere", 404, "没有这个接口"), ("/api/v1/me", 401, "缺少访问令牌")):
            answer = await client.get(path, headers=headers)
            assert answer.status_code == status
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert f"<h1>{said}</h1>" in answer.text
            assert "style-src 'sha256-" in answer.headers["content-security-policy"]

    async def test_a_form_of_theirs_is_answered_like_a_program(self, client):
        answer = await client.post("/nowhere", headers={"Accept": "text/html"})
        assert answer.json()["code"] == "ROUTE_NOT_FOUND"


class TestTheRoutersOwnRefusals:
    async def test_an_unknown_address(self, client):
        answer = await client.get("/nothing/here")
        assert (answer.status_code, answer.json()["code"]) == (404, "ROUTE_NOT_FOUND")
        assert set(answer.json()) == SHAPE

    async def test_a_trailing_slash_is_another_address(self, client):
        assert (await client.get("/health/")).status_code == 404

    async def test_a_wrong_method_names_the_right_ones_of_all_routes_there(self, client):
        answer = await client.put("/api/v1/webhooks")
        assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")
        assert answer.headers["allow"] == "GET, POST"

    async def test_a_made_up_method(self, client):
        answer = await client.request("BREW", "/health")
        assert answer.status_code == 405


class TestBadRequests:
    async def test_malformed_json(self, client):
        answer = await client.post(
            "/api/v1/session", content=b'{"code": ', headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID")
        assert list(answer.json()["details"]["fields"]) == ["body"]

    @pytest.mark.parametrize("content", [b"\xff\xfe", b"\x00", b"[" * 30_000, b'{"code": NaN}', b""])
    async def test_bytes_that_are_no_json(self, client, content):
        answer = await client.post("/api/v1/session", content=content, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID")

    async def test_a_missing_field_is_named(self, client):
        answer = await client.post("/api/v1/session", json={})
        assert answer.json()["details"] == {"fields": {"body.code": "Field required"}}

    async def test_what_was_sent_is_not_sent_back(self, client):
        answer = await client.post("/api/v1/session", json={"code": ["hunter2"]})
        assert answer.status_code == 400
        assert "hunter2" not in answer.text

    @pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", None])
    async def test_another_content_type(self, client, kind):
        headers = {"Content-Type": kind} if kind else {}
        answer = await client.post("/api/v1/session", content=b'{"code": "x"}', headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "CONTENT_TYPE_INVALID")

    async def test_a_body_that_says_it_is_huge(self, client):
        answer = await client.post("/api/v1/session", json={"code": "x" * (1 << 20)})
        assert (answer.status_code, answer.json()["code"]) == (413, "REQUEST_TOO_LARGE")

    async def test_a_body_that_turns_out_huge_is_not_read_to_the_end(self, client):
        sent = 0

        async def chunks():
            nonlocal sent
            for _ in range(64):
                sent += 1 << 16
                yield b" " * (1 << 16)

        answer = await client.post("/api/v1/session", content=chunks(), headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (413, "REQUEST_TOO_LARGE")
        assert sent <= (1 << 20) + (1 << 16)

    async def test_a_signed_in_callers_body_is_small_where_nothing_large_is_expected(self, client):
        """Reading a MiB of JSON held up everybody for 150 ms, and fifty a second were allowed."""
        large = {"url": "https://a.example", "event_types": ["x" * (80 << 10)]}
        answer = await client.post("/api/v1/webhooks", json=large, headers=bearer("uploader"))
        assert (answer.status_code, answer.json()["code"]) == (413, "REQUEST_TOO_LARGE")
        assert answer.json()["details"]["limit_bytes"] == 16 << 10

    async def test_of_very_many_wrong_fields_only_the_first_are_told(self, client):
        wrong = {str(each): 1 for each in range(1000)}
        answer = await client.post("/api/v1/jobs", json=wrong, headers=bearer("uploader"))
        assert (answer.status_code, len(answer.json()["details"]["fields"])) == (400, 20)

    async def test_large_bodies_have_a_limit_of_their_own(self, client):
        rule = {"name": "x", "system_prompt": "y" * (80 << 10), "wrong": True}
        sent = [await client.post("/api/v1/etl/rules", json=rule, headers=bearer("uploader")) for _ in range(13)]
        assert [each.status_code for each in sent[:10]] == [400] * 10
        assert (sent[-1].status_code, sent[-1].json()["details"]["scope"]) == (429, "large-bodies")

    async def test_a_bad_query(self, client):
        answer = await client.get("/api/v1/deliveries?limit=many&state=alive", headers=bearer("admin"))
        assert answer.status_code == 400
        assert set(answer.json()["details"]["fields"]) == {"query.limit", "query.state"}

    async def test_a_stranger_is_refused_before_the_body_is_looked_at(self, client):
        answer = await client.post("/api/v1/webhooks", content=b"{", headers={"Content-Type": "application/json"})
        assert answer.json()["code"] == "TOKEN_MISSING"


class TestRequestIds:
    async def test_each_request_has_its_own(self, client):
        ids = {(await client.get("/health/live")).headers["x-request-id"] for _ in range(3)}
        assert len(ids) == 3

    async def test_a_sane_one_is_kept(self, client):
        answer = await client.get("/health/live", headers={"X-Request-Id": "a.b:c_d-9"})
        assert answer.headers["x-request-id"] == "a.b:c_d-9"

    @pytest.mark.parametrize("offered", ["", "a b", "x" * 65, 'x"y', "é"])
    async def test_a_strange_one_is_replaced(self, client, offered):
        answer = await client.get("/health/live", headers={"X-Request-Id": offered.encode()})
        assert answer.headers["x-request-id"] != offered
        assert len(answer.headers["x-request-id"]) == 32


class TestHead:
    @pytest.mark.parametrize("path", ["/", "/docs", "/health", "/health/live", "/health/ready", "/metrics"])
    async def test_a_probe_gets_what_get_would_say_without_the_body(self, client, path):
        answer = await client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"] == (await client.get(path)).headers["content-type"]

    async def test_a_look_at_a_sign_in_link_does_not_use_it_up(self, client):
        assert (await client.head("/sign-in", params={"code": "x"})).status_code == 405

    async def test_streams_have_no_head(self, client):
        assert (await client.head("/api/v1/dashboard/events")).status_code == 405


class TestHeaders:
    async def test_answers_are_not_sniffed_framed_or_cached(self, client):
        headers = (await client.get("/health/live")).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"

    async def test_errors_have_them_too(self, client):
        assert (await client.get("/nothing")).headers["x-content-type-options"] == "nosniff"

    async def test_json_is_utf8_as_it_is(self, client):
        answer = await client.get("/nothing", headers={"Accept-Language": "zh"})
        assert json.loads(answer.content.decode())["message"] == "没有这个接口"
