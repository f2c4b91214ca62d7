"""Whoever may not, and whatever cannot be read: each has its answer, and none of them a traceback."""

import json
import socket
import struct
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.bucket import NAME, BucketThread

START = {"x-goog-resumable": "start"}


def code(answer: httpx.Response) -> str:
    return answer.text.partition("<Code>")[2].partition("</Code>")[0]


class TestSignatures:
    def test_a_signed_address_works_as_often_as_wanted(self, bucket, name):
        url = bucket.signed(name)
        assert [bucket.http.post(url, headers=START).status_code for _ in range(2)] == [201, 201]

    @pytest.mark.parametrize("odd", ["a b", "ü/中", "a~b", "a%2Fb", "a+b&c=d?e#f", "a//b", "x" * 900])
    def test_any_name(self, bucket, name, odd):
        session = bucket.begin(f"{name}/{odd}")
        assert bucket.put(session, b"x").status_code == 200
        assert bucket.official().bucket(NAME).blob(f"{name}/{odd}").exists()

    def test_none_at_all(self, bucket, name):
        answer = bucket.http.post(f"{bucket.address}/{NAME}/{name}", headers=START)
        assert (answer.status_code, code(answer)) == (403, "AccessDenied")

    def test_another_object(self, bucket, name):
        answer = bucket.http.post(bucket.signed(name).replace(name, f"{name}x"), headers=START)
        assert (answer.status_code, code(answer)) == (403, "SignatureDoesNotMatch")

    def test_another_host(self, bucket, name):
        url = bucket.signed(name).replace("127.0.0.1", "localhost")
        assert bucket.http.post(url, headers=START).status_code == 403

    def test_another_method(self, bucket, name):
        assert bucket.http.post(bucket.signed(name, method="PUT"), headers=START).status_code == 403

    def test_a_longer_time_than_was_signed(self, bucket, name):
        url = bucket.signed(name).replace("X-Goog-Expires=900", "X-Goog-Expires=9000")
        assert bucket.http.post(url, headers=START).status_code == 403

    def test_a_signed_header_with_another_value(self, bucket, name):
        url = bucket.signed(name, {"x-goog-if-generation-match": "0"})
        answer = bucket.http.post(url, headers={**START, "x-goog-if-generation-match": "1"})
        assert (answer.status_code, code(answer)) == (403, "SignatureDoesNotMatch")

    def test_a_signed_header_that_is_missing(self, bucket, name):
        answer = bucket.http.post(bucket.signed(name, {"x-goog-if-generation-match": "0"}), headers=START)
        assert (answer.status_code, code(answer)) == (400, "MalformedSecurityHeader")

    def test_a_header_that_was_not_signed(self, bucket, name):
        answer = bucket.http.post(bucket.signed(name), headers={**START, "x-goog-acl": "public-read"})
        assert answer.status_code == 403

    def test_one_that_is_too_old(self, bucket, name, monkeypatch):
        url = bucket.signed(name, expiration=timedelta(seconds=1))
        old = datetime.now(UTC) - timedelta(minutes=5)
        import google.cloud.storage._signing as signing

        monkeypatch.setattr(signing, "_NOW", lambda *_: old)
        url = bucket.signed(name, expiration=old + timedelta(seconds=60))
        answer = bucket.http.post(url, headers=START)
        assert (answer.status_code, code(answer)) == (400, "ExpiredToken")

    @pytest.mark.parametrize(
        ("parameter", "value"),
        [
            ("X-Goog-Expires", "604801"),
            ("X-Goog-Expires", "0"),
            ("X-Goog-Expires", "soon"),
            ("X-Goog-Expires", "9" * 5000),
            ("X-Goog-Date", "yesterday"),
            ("X-Goog-Credential", "me"),
            ("X-Goog-Algorithm", "none"),
            ("X-Goog-SignedHeaders", "content-type"),
            ("X-Goog-SignedHeaders", "host;a;a"),
        ],
    )
    def test_parameters_that_cannot_be(self, bucket, name, parameter, value):
        url = httpx.URL(bucket.signed(name)).copy_set_param(parameter, value)
        assert bucket.http.post(url, headers=START).status_code in (400, 403)

    @pytest.mark.parametrize("signature", ["", "zz", "00", "ab" * 256])
    def test_signatures_that_are_none(self, bucket, name, signature):
        url = httpx.URL(bucket.signed(name)).copy_set_param("X-Goog-Signature", signature)
        assert bucket.http.post(url, headers=START).status_code == 403

    def test_a_stranger_who_signs(self, bucket, name, tmp_path):
        with BucketThread(tmp_path) as stranger:
            url = stranger.signed(name).replace(stranger.address, bucket.address)
        assert bucket.http.post(url, headers=START).status_code == 403

    def test_the_beginning_has_no_body(self, bucket, name):
        assert bucket.http.post(bucket.signed(name), headers=START, content=b"x").status_code == 400


class TestTokens:
    @pytest.mark.parametrize("header", [None, "Bearer", "Bearer x", "Bearer a.b.c", "Basic x"])
    def test_calls_without_a_good_one(self, bucket, header):
        headers = {"authorization": header} if header else {}
        for method, path in (
            ("GET", f"/storage/v1/b/{NAME}"),
            ("GET", f"/storage/v1/b/{NAME}/o"),
            ("DELETE", f"/storage/v1/b/{NAME}/o/x"),
            ("POST", f"/upload/storage/v1/b/{NAME}/o?uploadType=media&name=x"),
            ("GET", f"/download/storage/v1/b/{NAME}/o/x?alt=media"),
        ):
            answer = bucket.http.request(method, bucket.address + path, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, 401)

    @pytest.mark.parametrize("form", [b"", b"\xff", b"grant_type=x", b"assertion=a&assertion=b", b"a" * 40_000])
    def test_grants_that_are_none(self, bucket, form):
        answer = bucket.http.post(f"{bucket.address}/token", content=form)
        assert answer.status_code in (400, 413)

    def test_a_grant_that_somebody_else_signed(self, bucket, tmp_path):
        from google.auth.exceptions import RefreshError
        from google.auth.transport.requests import Request

        with BucketThread(tmp_path) as stranger:
            account = stranger.account.with_scopes(["x"])
        account._token_uri = f"{bucket.address}/token"
        with pytest.raises(RefreshError, match="invalid_grant"):
            account.refresh(Request())

    def test_faults_cannot_be_ordered_over_the_network(self, bucket):
        assert bucket.http.post(f"{bucket.address}/_/faults", json={"lost_answers": 1}).status_code == 404
        assert bucket.faults.lost_answers == 0


class TestRequestsThatCannotBeRead:
    @pytest.mark.parametrize(
        "content_range",
        ["", "bytes", "bytes 5-1/9", "bytes 0-9/5", "bytes 0-9/9x", "bytes -1-2/3", "items 0-0/1", "bytes */-1",
         "bytes 0-" + "9" * 30 + "/*", "bytes ٣-٤/٥"],
    )  # fmt: skip
    def test_a_content_range(self, bucket, name, content_range):
        session = bucket.begin(name)
        headers = {"content-range": content_range.encode()}
        assert bucket.http.put(session, content=b"x", headers=headers).status_code == 400
        assert bucket.asked(session).status_code == 308

    def test_a_length_and_a_range_that_contradict_each_other(self, bucket, name):
        session = bucket.begin(name)
        assert bucket.put(session, b"xy", "bytes 0-2/9").status_code == 400
        assert bucket.put(session, b"xy", "bytes */9").status_code == 400
        bucket.put(session, b"xy", "bytes 0-1/9")
        assert bucket.put(session, b"xy", "bytes 0-1/8").status_code == 400

    @pytest.mark.parametrize(
        "path",
        ["/", "//", "/other/x", f"/{NAME}", f"/{NAME}/", f"/{NAME}/%FF", f"/{NAME}/..", f"/{NAME}/" + "x" * 1025,
         f"/{NAME}/a%0Ab", f"/{NAME}/x?" + "&".join(["a=b"] * 100), f"/{NAME}/" + "x" * 20_000, "/storage/v1/x",
         "/_/other", f"/{NAME}/x?upload_id=%FF", "/%00"],
    )  # fmt: skip
    def test_an_address(self, bucket, path):
        for method in ("GET", "POST", "PUT", "DELETE"):
            with httpx.Client(trust_env=False) as client:
                request = client.build_request(method, bucket.address)
                request.url = request.url.copy_with(raw_path=path.encode())
                assert 400 <= client.send(request).status_code < 500

    def test_headers_that_are_too_large(self, bucket, name):
        answer = bucket.http.put(bucket.begin(name), headers={"x-much": "y" * 40_000})
        assert answer.status_code == 431

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.binary(max_size=300))
    def test_noise(self, bucket, noise):
        """Whatever comes on the wire, the next request is answered."""
        host, port = bucket.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=5) as wire:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.sendall(b"PUT /" + noise + b" HTTP/1.1\r\nhost: x\r\n\r\n")
        assert bucket.http.get(f"{bucket.address}/health/live").status_code == 200

    @pytest.mark.parametrize("body", [b"[]", b"{", b'{"name": 5}', b'{"metadata": {"a": 1}}', b"\xff", b"[" * 60_000])
    def test_descriptions(self, bucket, body):
        path = f"/upload/storage/v1/b/{NAME}/o?uploadType=resumable&name=x"
        assert bucket.api("POST", path, content=body).status_code == 400

    @pytest.mark.parametrize(
        "body",
        [b"", b"--b", b"--b\r\n\r\n{}", b"--b\r\n\r\n{}\r\n--b\r\n\r\nhalf", b"x" * 100_000,
         b"--b\r\n\r\n{}\r\n--b\r\n" + b"y" * 100_000],
    )  # fmt: skip
    def test_bodies_of_two_parts(self, bucket, body):
        path = f"/upload/storage/v1/b/{NAME}/o?uploadType=multipart&name=never"
        headers = {"content-type": 'multipart/related; boundary="b"'}
        assert bucket.api("POST", path, content=body, headers=headers).status_code == 400
        assert bucket.api("GET", f"/storage/v1/b/{NAME}/o/never").status_code == 404

    @pytest.mark.parametrize(
        "query",
        ["pageToken=%21", "maxResults=x", "maxResults=-1", "pageToken=" + quote("é")],
    )
    def test_lists(self, bucket, query):
        assert bucket.api("GET", f"/storage/v1/b/{NAME}/o?{query}").status_code == 400

    def test_preconditions_that_are_not_known_here_are_not_passed_over(self, bucket):
        path = f"/upload/storage/v1/b/{NAME}/o?uploadType=media&name=x&ifMetagenerationMatch=1"
        answer = bucket.api("POST", path, content=b"x")
        assert "ifMetagenerationMatch" in json.dumps(answer.json())
        assert answer.status_code == 400
