"""Who may: tokens, roles, merchants; pages of other sites (CORS); and refusals that people can read."""

import pytest
from tests.conformance.tus.test_core import UNKNOWN
from tests.support.gateway import Gateway
from tests.support.tus import CHUNK, UPLOADS, Tus

ORIGIN = "https://shop.example"
EXPOSED = {
    "Location",
    "Tus-Checksum-Algorithm",
    "Tus-Extension",
    "Tus-Max-Size",
    "Tus-Resumable",
    "Tus-Version",
    "Upload-Concat",
    "Upload-Defer-Length",
    "Upload-Expires",
    "Upload-Length",
    "Upload-Metadata",
    "Upload-Offset",
}
ALLOWED = {
    "Authorization",
    "Content-Type",
    "Tus-Resumable",
    "Upload-Checksum",
    "Upload-Concat",
    "Upload-Defer-Length",
    "Upload-Length",
    "Upload-Metadata",
    "Upload-Offset",
    "X-HTTP-Method-Override",
    "X-Request-ID",
}


def listed(text: str | None) -> set[str]:
    return {word.strip().lower() for word in (text or "").split(",")}


class TestCallers:
    @pytest.mark.parametrize("method", ["POST", "HEAD", "PATCH", "DELETE"])
    def test_without_a_token_it_is_401_and_nothing_happens(self, tus: Tus, method: str):
        path = tus.created(3)
        headers = {"Authorization": None, "Upload-Offset": "0", "Upload-Length": "3", "Content-Type": CHUNK}
        answer = tus.ask(method, UPLOADS if method == "POST" else path, headers, b"abc" if method == "PATCH" else b"")
        assert answer.status == 401
        assert answer["WWW-Authenticate"] == "Bearer"
        assert tus.head(path).offset == 0

    @pytest.mark.parametrize("token", ["Bearer nonsense", "Basic eDp5", "Bearer "])
    def test_with_a_bad_token_it_is_401(self, tus: Tus, token: str):
        assert tus.create(3, authorization=token).refusal == (401, "TOKEN_INVALID")

    def test_a_role_that_does_not_upload_is_403(self, gateway: Gateway):
        assert gateway.caller(role="annotator").create(3).refusal == (403, "ROLE_DENIED")

    def test_an_upload_of_another_merchant_is_as_unknown_as_one_that_never_was(self, tus: Tus, gateway: Gateway):
        path, stranger = tus.created(3), gateway.caller("m-2")
        assert stranger.head(path).status == 404
        assert stranger.patch(path, 0, b"abc").refusal == stranger.patch(UNKNOWN, 0, b"abc").refusal
        assert stranger.delete(path).refusal == (404, "UPLOAD_NOT_FOUND")
        assert tus.head(path).offset == 0


class TestPagesOfOtherSites:
    def test_a_page_may_ask_before_it_sends(self, tus: Tus):
        answer = tus.options(
            origin=ORIGIN,
            access_control_request_method="PATCH",
            access_control_request_headers="authorization,tus-resumable,upload-offset,content-type",
        )
        assert answer.status in (200, 204)
        assert answer["Access-Control-Allow-Origin"] in ("*", ORIGIN)
        assert {"post", "head", "patch", "delete", "options"} <= listed(answer["Access-Control-Allow-Methods"])
        assert {name.lower() for name in ALLOWED} <= listed(answer["Access-Control-Allow-Headers"])
        assert int(answer["Access-Control-Max-Age"] or 0) > 0

    def test_a_page_may_read_what_the_protocol_says(self, tus: Tus):
        path = tus.created(3)
        answers = [
            tus.create(3, origin=ORIGIN),
            tus.head(path, origin=ORIGIN),
            tus.patch(path, 0, b"abc", origin=ORIGIN),
            tus.patch(path, 1, b"abc", origin=ORIGIN),
            tus.head(UNKNOWN, origin=ORIGIN),
            tus.create(3, origin=ORIGIN, authorization=None),
            tus.create(3, origin=ORIGIN, tus_resumable=None),
        ]
        for answer in answers:
            assert answer["Access-Control-Allow-Origin"] in ("*", ORIGIN), answer.status
            assert {name.lower() for name in EXPOSED} <= listed(answer["Access-Control-Expose-Headers"])

    def test_no_page_may_use_our_cookie(self, tus: Tus):
        for answer in (tus.options(origin=ORIGIN), tus.create(3, origin=ORIGIN)):
            assert "Access-Control-Allow-Credentials" not in answer


class TestRefusals:
    @pytest.mark.parametrize(("language", "word"), [("en", "offset"), ("zh-CN,zh;q=0.9", "偏移")])
    def test_a_refusal_is_a_sentence_in_the_language_of_the_reader(self, tus: Tus, language: str, word: str):
        path = tus.created(3)
        answer = tus.patch(path, 1, b"abc", accept_language=language)
        assert answer["Content-Type"] == "application/json"
        assert {"code", "message", "severity", "details", "request_id", "remedy"} <= set(answer.error)
        said = f"{answer.error['message']} {answer.error['remedy']}".lower()
        assert word in said

    @pytest.mark.parametrize("method", ["GET", "PUT", "BREW"])
    def test_a_method_that_is_none_of_ours_is_405(self, tus: Tus, method: str):
        assert tus.ask(method, tus.created(3)).status == 405

    @pytest.mark.parametrize("path", [f"{UPLOADS}/", f"{UPLOADS}/a/b"])
    def test_an_address_that_is_none_of_ours_creates_nothing(self, tus: Tus, path: str):
        assert tus.ask("POST", path, {"Upload-Length": "3"}).status in (404, 405)
