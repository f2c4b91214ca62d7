"""Who we are: keys, tokens, signatures; where they are found and what happens when they are refused."""

import asyncio
import base64
import os
from importlib.metadata import EntryPoint

import pytest
from tests.integration.harvest.calling.conftest import SECRET, spec_for
from tests.support.misbehaving import misbehaving, said

from penstock.harvest.calling import auth as auth_module
from penstock.harvest.calling.auth import Signature
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError


async def refusal(calling, spec):
    with pytest.raises(PenstockError) as caught:
        await calling.fetch(spec)
    assert "hushMARKED" not in str(caught.value)
    return caught.value


def with_auth(source, **auth):
    return spec_for(source.address, auth={"credentialRef": "key", **auth})


class TestKeys:
    @pytest.mark.parametrize("kind", ["env", "file", "store"])
    async def test_a_secret_is_found_where_its_reference_points(self, calling, monkeypatch, tmp_path, kind):
        monkeypatch.setenv("EXAMPLE_KEY", SECRET)
        (tmp_path / "example-key").write_text(SECRET + "\n")
        calling.references["key"] = {
            "env": {"env": "EXAMPLE_KEY"},
            "file": {"file": str(tmp_path / "example-key")},
            "store": {"store": "example-key"},
        }[kind]
        async with misbehaving(said()) as source:
            await calling.fetch(with_auth(source, type="API_KEY", location="QUERY", name="api_key"))
        assert source.asked[0].query == {"api_key": SECRET}

    @pytest.mark.parametrize(
        ("auth", "header"),
        [
            ({"type": "API_KEY"}, ("x-api-key", SECRET)),
            ({"type": "API_KEY", "name": "Plus-Token", "prefix": "Bearer "}, ("plus-token", f"Bearer {SECRET}")),
            ({"type": "BEARER"}, ("authorization", f"Bearer {SECRET}")),
        ],
    )
    async def test_it_goes_into_the_header_that_the_source_names(self, calling, monkeypatch, auth, header):
        monkeypatch.setenv("EXAMPLE_KEY", SECRET)
        calling.references["key"] = {"env": "EXAMPLE_KEY"}
        async with misbehaving(said()) as source:
            await calling.fetch(with_auth(source, **auth))
        assert source.asked[0].headers[header[0]] == header[1]

    @pytest.mark.parametrize(
        "reference",
        [
            None,
            {"env": "EXAMPLE_UNSET"},
            {"file": "/nowhere/at/all"},
            {"store": "../escape"},
            {"store": "absent"},
            {"value": "hushMARKED"},
            {"env": "A", "file": "B"},
            {"secret": "hushMARKED"},
            {"secret": None},
            {"secret": {"env": "EXAMPLE_UNSET", "file": None}},
        ],
    )
    async def test_a_secret_that_cannot_be_found_is_told_without_asking_the_source(self, calling, reference):
        calling.references["key"] = reference
        async with misbehaving(said()) as source:
            failure = await refusal(calling, with_auth(source, type="BEARER", required=True))
        assert failure.code is error_codes.CREDENTIAL_MISSING
        assert failure.details["reference"]
        assert source.asked == []

    async def test_a_source_that_answers_strangers_is_asked_without_a_key_that_is_not_set(self, calling):
        calling.references["key"] = {"env": "EXAMPLE_UNSET"}
        async with misbehaving(said()) as source:
            await calling.fetch(with_auth(source, type="API_KEY", location="QUERY", name="api_key"))
        assert source.asked[0].query == {}

    async def test_a_secret_with_a_line_break_is_not_sent(self, calling, monkeypatch):
        monkeypatch.setenv("EXAMPLE_KEY", "hushMARKED\r\nX-Evil: 1")
        calling.references["key"] = {"env": "EXAMPLE_KEY"}
        async with misbehaving(said()) as source:
            failure = await refusal(calling, with_auth(source, type="BEARER"))
        assert failure.code is error_codes.SOURCE_AUTH_FAILED
        assert source.asked == []


class TestBeingRefused:
    async def test_a_401_reads_the_secret_again_once(self, calling, tmp_path):
        place = tmp_path / "rotating"
        place.write_text("old-hushMARKED")
        calling.references["key"] = {"store": "rotating"}

        async def rotated(asked, writer):
            if asked.headers["authorization"] == "Bearer old-hushMARKED":
                place.write_text("new-hushMARKED")
                return said(401, {"error": "old-hushMARKED"})
            return said(200, b"in")

        async with misbehaving(rotated) as source:
            fetched = await calling.fetch(with_auth(source, type="BEARER"))
        assert fetched.answer.body == b"in"
        assert len(source.asked) == 2

    @pytest.mark.parametrize(("status", "times"), [(401, 2), (403, 1)])
    async def test_a_refusal_that_stays_is_an_error_and_never_an_anonymous_call(
        self, calling, monkeypatch, status, times
    ):
        monkeypatch.setenv("EXAMPLE_KEY", SECRET)
        calling.references["key"] = {"env": "EXAMPLE_KEY"}
        async with misbehaving(said(status, {"message": f"bad key {SECRET}"})) as source:
            failure = await refusal(calling, with_auth(source, type="BEARER"))
        assert failure.code is error_codes.SOURCE_AUTH_FAILED
        assert failure.details["status"] == status
        assert "bad key <masked>" in failure.details["answer"]
        assert [("authorization" in asked.headers) for asked in source.asked] == [True] * times

    @pytest.mark.parametrize("status", [401, 403])
    async def test_without_a_credential_it_is_the_request_that_was_refused(self, calling, status):
        async with misbehaving(said(status)) as source:
            failure = await refusal(calling, spec_for(source.address))
        assert failure.code is error_codes.SOURCE_REFUSED
        assert len(source.asked) == 1


def oauth(source, tokens, **more):
    options = {"tokenUrl": tokens.address + "/token", "scope": "read", **more}
    return with_auth(source, type="OAUTH2", required=True, oauth2=options)


@pytest.fixture
def client(calling, monkeypatch):
    monkeypatch.setenv("EXAMPLE_CLIENT", SECRET)
    monkeypatch.setenv("EXAMPLE_CLIENT_ID", "me")
    calling.references["key"] = {"clientId": {"env": "EXAMPLE_CLIENT_ID"}, "secret": {"env": "EXAMPLE_CLIENT"}}


@pytest.mark.usefixtures("client")
class TestOAuth2:
    async def test_many_callers_ask_for_one_token(self, calling):
        token = said(200, {"access_token": "tok-hushMARKED", "token_type": "Bearer", "expires_in": 3600})
        async with misbehaving(token) as tokens, misbehaving(said()) as source:
            spec = oauth(source, tokens)
            await asyncio.gather(*(calling.fetch(spec) for _ in range(8)))
        assert len(tokens.asked) == 1
        assert tokens.asked[0].body == b"grant_type=client_credentials&scope=read"
        sent = base64.b64decode(tokens.asked[0].headers["authorization"].removeprefix("Basic ")).decode()
        assert sent == "me:hushMARKED%2Fsecret%2Bkey%3D%3D"
        assert {asked.headers["authorization"] for asked in source.asked} == {"Bearer tok-hushMARKED"}

    async def test_a_token_that_is_about_to_end_is_renewed(self, calling):
        def token(text):
            return said(200, {"access_token": text, "expires_in": 1e-6})

        async with misbehaving(*(token(f"t{n}") for n in range(4))) as tokens, misbehaving(said()) as source:
            spec = oauth(source, tokens, early="10s")
            await calling.fetch(spec)  # fetches one to be ready, and another when the first has ended by then
            await calling.fetch(spec)
        assert [asked.headers["authorization"] for asked in source.asked] == ["Bearer t1", "Bearer t3"]

    async def test_a_401_gets_one_new_token(self, calling):
        def token(text):
            return said(200, {"access_token": text, "expires_in": 3600})

        async with misbehaving(token("one"), token("two")) as tokens, misbehaving(said(401), said()) as source:
            await calling.fetch(oauth(source, tokens))
            assert [asked.headers["authorization"] for asked in source.asked] == ["Bearer one", "Bearer two"]
        async with misbehaving(token("three")) as tokens, misbehaving(said(401)) as source:
            assert (await refusal(calling, oauth(source, tokens))).code is error_codes.SOURCE_AUTH_FAILED
            assert len(source.asked) == 2

    @pytest.mark.parametrize(
        ("reference", "is_whole"),
        [
            ({"clientId": "me", "clientSecret": {"env": "EXAMPLE_CLIENT"}}, True),
            ({"env": "EXAMPLE_PAIR"}, True),
            ({"env": "EXAMPLE_CLIENT"}, False),
            ({"clientId": "me"}, False),
        ],
    )
    async def test_a_client_has_an_id_and_a_secret(self, calling, monkeypatch, reference, is_whole):
        monkeypatch.setenv("EXAMPLE_PAIR", f"me:{SECRET}")
        calling.references["key"] = reference
        token = said(200, {"access_token": "t", "expires_in": 3600})
        async with misbehaving(token) as tokens, misbehaving(said()) as source:
            if not is_whole:
                failure = await refusal(calling, oauth(source, tokens))
                assert failure.details["reason"] == "CLIENT_SECRET_INCOMPLETE"
                return
            await calling.fetch(oauth(source, tokens))
        sent = base64.b64decode(tokens.asked[0].headers["authorization"].removeprefix("Basic ")).decode()
        assert sent == "me:hushMARKED%2Fsecret%2Bkey%3D%3D"

    async def test_a_client_that_only_the_form_can_name(self, calling):
        token = said(200, {"access_token": "t", "expires_in": 3600})
        async with misbehaving(said(401, {"error": "invalid_client"}), token) as tokens, misbehaving(said()) as source:
            await calling.fetch(oauth(source, tokens))
        assert b"client_id=me&client_secret=hushMARKED%2Fsecret" in tokens.asked[1].body
        assert "authorization" not in tokens.asked[1].headers

    @pytest.mark.parametrize(
        "answer",
        [
            said(200, b'{"access_token":"t","expires_in":1' + b"0" * 400 + b"}"),
            said(400, {"error": "invalid_scope", "echo": SECRET}),
            said(403, SECRET.encode()),
            said(200, b"<html>"),
            said(200, []),
            said(200, {"access_token": ""}),
            said(200, {"access_token": 5}),
            said(200, {"access_token": "x", "token_type": "mac"}),
            said(200, {"access_token": "x", "expires_in": "soon"}),
            said(302, location="https://evil.example/token"),
        ],
    )
    async def test_a_refusal_is_final_and_the_source_is_not_asked(self, calling, answer):
        async with misbehaving(answer) as tokens, misbehaving(said()) as source:
            failure = await refusal(calling, oauth(source, tokens))
        assert failure.code is error_codes.SOURCE_AUTH_FAILED
        assert source.asked == []
        assert len(tokens.asked) == 1

    async def test_a_token_endpoint_that_is_down_is_tried_again(self, calling):
        token = said(200, {"access_token": "t"})
        async with misbehaving(said(503), token) as tokens, misbehaving(said()) as source:
            await calling.fetch(oauth(source, tokens))
        assert len(tokens.asked) == 2


@pytest.fixture
def hooks(monkeypatch):
    """Signing hooks as an installed package would declare them."""

    def declared(*, group, name):
        place = f"tests.integration.harvest.calling.test_auth:{name}"
        known = name in {"sign", "breaks", "answers_nonsense", "not_there"}
        return [EntryPoint(name, place, group)] if known and group == "penstock.harvest.signing" else []

    monkeypatch.setattr(auth_module, "entry_points", declared)


def sign(outgoing, secret):
    text = f"{outgoing.method} {outgoing.url} {outgoing.body.decode()} {len(secret('secret'))}"
    return Signature(headers={"X-Signature": base64.b64encode(text.encode()).decode()}, query={"ts": "1"})


def breaks(outgoing, secret):
    raise RuntimeError(f"cannot sign with {secret('secret')}")


def answers_nonsense(outgoing, secret):
    return {"no": "signature", "secret": secret("secret")}


@pytest.mark.usefixtures("hooks")
class TestSigning:
    async def test_a_hook_sees_what_is_sent_and_adds_to_it(self, calling, monkeypatch):
        monkeypatch.setitem(os.environ, "EXAMPLE_KEY", SECRET)
        calling.references["key"] = {"env": "EXAMPLE_KEY"}
        async with misbehaving(said()) as source:
            spec = spec_for(
                source.address,
                auth={"credentialRef": "key", "type": "CUSTOM", "signingHook": "sign"},
                http={"method": "POST", "bodyTemplate": {"a": "1"}, "queryTemplate": {"q": "x y"}},
            )
            fetched = await calling.fetch(spec)
        signed = base64.b64decode(source.asked[0].headers["x-signature"]).decode()
        assert signed == f"POST {source.address}?q=x+y a=1 {len(SECRET)}"
        assert source.asked[0].query == {"q": "x y", "ts": "1"}
        assert source.asked[0].headers["x-signature"] not in repr(fetched.evidence)

    @pytest.mark.parametrize("hook", ["breaks", "answers_nonsense", "not_there", "unknown"])
    async def test_a_broken_hook_is_an_auth_failure(self, calling, monkeypatch, hook):
        monkeypatch.setitem(os.environ, "EXAMPLE_KEY", SECRET)
        calling.references["key"] = {"env": "EXAMPLE_KEY"}
        async with misbehaving(said()) as source:
            failure = await refusal(calling, with_auth(source, type="CUSTOM", signingHook=hook))
        assert failure.code is error_codes.SOURCE_AUTH_FAILED
        assert source.asked == []
