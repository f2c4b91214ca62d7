"""The core protocol: versions, OPTIONS, HEAD, PATCH, and the method that a header names."""

import pytest
from tests.support.gateway import Gateway
from tests.support.tus import CHUNK, UPLOADS, Tus, id_of, metadata

UNKNOWN = f"{UPLOADS}/upl_000000000000000000000"
NOT_A_NUMBER = ["", "-1", "+1", "1.5", "1e3", "0x10", "ten", "1 2", "1,2", "1_000", "\u0661", "\u00b2"]


class TestVersion:
    def test_every_answer_names_the_version(self, tus: Tus):
        path = tus.created(3)
        answers = [
            tus.create(3),
            tus.head(path),
            tus.patch(path, 0, b"abc"),
            tus.patch(path, 1, b"x"),
            tus.create("x"),
            tus.head(UNKNOWN),
            tus.head(path, authorization=None),
            tus.delete(path),
            tus.head(path),
        ]
        assert [answer.status for answer in answers] == [201, 200, 204, 409, 400, 404, 401, 204, 410]
        assert {answer["Tus-Resumable"] for answer in answers} == {"1.0.0"}

    @pytest.mark.parametrize("version", [None, "", "0.2.2", "1.0", "1.0.1", "2.0.0", "1.0.0,0.2.2", "one"])
    @pytest.mark.parametrize("method", ["POST", "HEAD", "PATCH", "DELETE"])
    def test_any_other_or_none_is_412_with_those_we_speak(self, tus: Tus, method: str, version: str | None):
        path = UPLOADS if method == "POST" else tus.created(3)
        headers = {"Tus-Resumable": version, "Upload-Length": "3", "Upload-Metadata": metadata(), "Upload-Offset": "0"}
        answer = tus.ask(method, path, {**headers, "Content-Type": CHUNK}, b"abc" if method == "PATCH" else b"")
        assert answer.status == 412
        assert answer["Tus-Version"] == "1.0.0"
        assert "Upload-Offset" not in answer
        if method != "HEAD":
            assert answer.code == "TUS_VERSION_UNSUPPORTED"

    def test_a_request_of_another_version_is_not_processed(self, tus: Tus, gateway: Gateway):
        path = tus.created(3)
        before = gateway.query("select count(*) from tus_uploads")
        assert tus.create(3, tus_resumable="0.2.2").status == 412
        assert tus.patch(path, 0, b"abc", tus_resumable="0.2.2").status == 412
        assert tus.delete(path, tus_resumable="0.2.2").status == 412
        assert gateway.query("select count(*) from tus_uploads") == before
        assert tus.head(path).offset == 0


class TestOptions:
    def test_it_says_what_the_server_can_do(self, tus: Tus):
        answer = tus.options()
        assert answer.status in (200, 204)
        assert (answer["Tus-Version"] or "").split(",")[0] == "1.0.0"
        assert set((answer["Tus-Extension"] or "").split(",")) == {
            "creation",
            "creation-with-upload",
            "creation-defer-length",
            "checksum",
            "termination",
            "expiration",
            "concatenation",
        }
        assert answer["Tus-Max-Size"] == str(16 << 30)

    def test_it_names_the_checksum_algorithms(self, tus: Tus):
        named = (tus.options()["Tus-Checksum-Algorithm"] or "").split(",")
        assert set(named) == {"sha1", "sha256"}

    @pytest.mark.parametrize("version", ["1.0.0", "0.2.2", "nonsense"])
    def test_it_ignores_the_version_of_the_client(self, tus: Tus, version: str):
        answer = tus.options(tus_resumable=version)
        assert answer.status in (200, 204)
        assert answer["Tus-Version"] == "1.0.0"

    def test_an_upload_answers_it_as_well(self, tus: Tus):
        answer = tus.options(tus.created(3))
        assert answer.status in (200, 204)
        assert answer["Tus-Version"] == "1.0.0"

    def test_it_needs_no_token(self, tus: Tus):
        assert tus.options().status in (200, 204)  # which carries none


class TestHead:
    def test_a_new_upload_stands_at_0(self, tus: Tus):
        answer = tus.head(tus.created(70))
        assert answer.status in (200, 204)
        assert answer.offset == 0

    def test_a_finished_upload_still_tells_its_offset(self, tus: Tus):
        assert tus.head(tus.uploaded(b"all of it")).offset == 9

    def test_a_known_length_is_told(self, tus: Tus):
        answer = tus.head(tus.created(70))
        assert answer["Upload-Length"] == "70"
        assert "Upload-Defer-Length" not in answer

    def test_no_answer_may_be_cached(self, tus: Tus):
        for path in (tus.created(70), UNKNOWN):
            assert tus.head(path)["Cache-Control"] == "no-store"

    def test_an_unknown_upload_is_404_without_an_offset(self, tus: Tus):
        answer = tus.head(UNKNOWN)
        assert answer.status == 404
        assert "Upload-Offset" not in answer

    @pytest.mark.parametrize(
        "name",
        ["x", "upl_", "upl_%2e%2e%2fetc", "..%2f..%2fetc%2fpasswd", "%00", "..", "%2e", "%2e%2e", "upl_" + "a" * 500],
    )
    def test_no_name_however_odd_is_more_than_unknown(self, tus: Tus, name: str):
        assert tus.head(f"{UPLOADS}/{name}").status == 404

    def test_it_has_no_body_even_when_it_refuses(self, tus: Tus):
        with tus.wire() as wire:
            wire.send_head("HEAD", UNKNOWN)
            assert wire.answer("HEAD").status == 404
            wire.send_head("OPTIONS", UPLOADS)  # a body would be read here, in place of an answer
            assert wire.answer("OPTIONS").status in (200, 204)


class TestPatch:
    def test_bytes_are_applied_at_the_offset(self, tus: Tus, gateway: Gateway):
        path = tus.created(11)
        first = tus.patch(path, 0, b"hello ")
        assert (first.status, first.offset, first.body) == (204, 6, b"")
        assert tus.head(path).offset == 6
        second = tus.patch(path, 6, b"world")
        assert (second.status, second.offset) == (204, 11)
        assert gateway.bytes_of(path) == b"hello world"

    def test_the_new_offset_is_the_old_one_plus_what_was_received(self, tus: Tus):
        path, offset = tus.created(60), 0
        for size in (1, 2, 3, 0, 5, 49):
            offset = tus.patch(path, offset, b"." * size).offset
        assert offset == 60

    @pytest.mark.parametrize(
        "kind", [None, "", "application/octet-stream", "application/pdf", "text/plain", CHUNK + "x"]
    )
    def test_another_content_type_is_415_and_changes_nothing(self, tus: Tus, gateway: Gateway, kind: str | None):
        path = tus.created(3)
        answer = tus.patch(path, 0, b"abc", content_type=kind)
        assert answer.status == 415
        assert tus.head(path).offset == 0
        assert gateway.row(path)["received"] == 0

    @pytest.mark.parametrize("offset", [0, 2, 4, 6, 100, 2**40])
    def test_an_offset_that_differs_from_the_resource_is_409_and_changes_nothing(
        self, tus: Tus, gateway: Gateway, offset: int
    ):
        path = tus.created(6)
        tus.patch(path, 0, b"abc")
        answer = tus.patch(path, offset, b"xyz")
        assert answer.refusal == (409, "OFFSET_MISMATCH")
        assert answer["Upload-Offset"] == "3"
        assert tus.head(path).offset == 3
        assert gateway.bytes_of(path) == b"abc"

    @pytest.mark.parametrize("offset", [None, *NOT_A_NUMBER])
    def test_an_offset_that_is_no_number_is_400(self, tus: Tus, offset: str | None):
        path = tus.created(3)
        answer = tus.patch(path, 0, b"abc", upload_offset=offset)
        assert answer.refusal == (400, "UPLOAD_HEADER_INVALID")
        assert tus.head(path).offset == 0

    @pytest.mark.parametrize("offset", [str(2**63), str(2**64), "9" * 40, "9" * 5000])
    def test_an_offset_beyond_all_files_is_refused_and_breaks_nothing(self, tus: Tus, offset: str):
        path = tus.created(3)
        assert tus.patch(path, offset, b"abc").status in (400, 409)
        assert tus.head(path).offset == 0

    def test_an_unknown_upload_is_404(self, tus: Tus):
        assert tus.patch(UNKNOWN, 0, b"abc").refusal == (404, "UPLOAD_NOT_FOUND")

    def test_an_empty_body_moves_nothing(self, tus: Tus):
        path = tus.created(3)
        answer = tus.patch(path, 0)
        assert (answer.status, answer.offset) == (204, 0)

    def test_the_last_one_repeated_says_again_that_all_is_there(self, tus: Tus, gateway: Gateway):
        path = tus.uploaded(b"abc")
        for _ in range(2):
            answer = tus.patch(path, 3)
            assert (answer.status, answer.offset) == (204, 3)
        assert gateway.bytes_of(path) == b"abc"

    def test_more_than_the_length_is_413_and_nothing_of_it_counts(self, tus: Tus, gateway: Gateway):
        path = tus.created(6)
        tus.patch(path, 0, b"abc")
        assert tus.patch(path, 3, b"wxyz").refusal == (413, "UPLOAD_LENGTH_EXCEEDED")
        assert tus.head(path).offset == 3
        assert tus.patch(path, 3, b"def").offset == 6
        assert gateway.bytes_of(path) == b"abcdef"

    def test_after_the_end_nothing_is_taken(self, tus: Tus, gateway: Gateway):
        path = tus.uploaded(b"abc")
        assert tus.patch(path, 3, b"d").status in (409, 413)
        assert gateway.bytes_of(path) == b"abc"

    def test_a_large_body_arrives_as_it_was(self, tus: Tus, gateway: Gateway):
        content = bytes(range(256)) * 40_961  # no multiple of any buffer
        path = tus.uploaded(content)
        assert gateway.bytes_of(path) == content


class TestMethodOverride:
    @pytest.mark.parametrize("actual", ["POST", "GET", "PUT", "HEAD"])
    def test_the_method_of_the_header_is_the_one_that_counts(self, tus: Tus, actual: str):
        path = tus.created(3)
        headers = {"X-HTTP-Method-Override": "PATCH", "Upload-Offset": "0", "Content-Type": CHUNK}
        answer = tus.ask(actual, path, headers, b"abc")
        assert (answer.status, answer.offset) == (204, 3)

    def test_the_actual_method_is_ignored(self, tus: Tus):
        path = tus.created(3)
        answer = tus.ask("DELETE", path, {"X-HTTP-Method-Override": "HEAD"})
        assert (answer.status in (200, 204), answer.offset) == (True, 0)
        assert tus.head(path).status in (200, 204)

    def test_an_upload_is_cancelled_by_a_post_that_says_so(self, tus: Tus):
        path = tus.created(3)
        assert tus.ask("POST", path, {"X-HTTP-Method-Override": "DELETE"}).status == 204
        assert tus.head(path).status == 410

    @pytest.mark.parametrize("named", ["BREW", "GET", "", "PATCH, DELETE"])
    def test_a_method_that_is_none_of_ours_does_nothing(self, tus: Tus, named: str):
        path = tus.created(3)
        headers = {"X-HTTP-Method-Override": named, "Upload-Offset": "0", "Content-Type": CHUNK}
        assert 400 <= tus.ask("POST", path, headers, b"").status < 500
        assert tus.head(path).offset == 0

    def test_it_opens_no_way_around_the_token(self, tus: Tus):
        path = tus.created(3)
        answer = tus.ask("OPTIONS", path, {"X-HTTP-Method-Override": "DELETE", "Authorization": None})
        assert answer.status == 401
        assert tus.head(path).status in (200, 204)


class TestNames:
    def test_an_upload_has_a_name_that_nobody_guesses(self, tus: Tus):
        names = {id_of(tus.created(3)) for _ in range(5)}
        assert len(names) == 5
        assert all(name.startswith("upl_") and len(name) >= 20 for name in names)
