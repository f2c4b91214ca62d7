"""Tokens: what opens the door and what does not."""

import asyncio
import base64
import hmac
import json
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.clock import TurnedClock

from penstock.kernel.clock import SystemClock
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Identity, IdentitySettings, Role, issue_token
from penstock.kernel.settings import SettingsError, SettingsFile

SECRET = "a secret of at least thirty-two bytes"
ALICE = Caller("alice", "m-1", Role.UPLOADER)
RSA_1, RSA_2 = (rsa.generate_private_key(65537, 2048) for _ in range(2))
EC = ec.generate_private_key(ec.SECP256R1())


PROVIDED = {"issuer": "https://id.example", "audience": "penstock"}  # of tokens from a provider


def claims(**changed):
    made = {"sub": "alice", "merchant_id": "m-1", "role": "uploader", "exp": datetime.now(UTC) + timedelta(hours=1)}
    return {name: value for name, value in {**made, **changed}.items() if value is not None}


def signed(key=SECRET, algorithm="HS256", kid=None, **changed):
    named = {"iss": PROVIDED["issuer"], "aud": PROVIDED["audience"]} if kid or algorithm != "HS256" else {}
    return jwt.encode(claims(**named | changed), key, algorithm=algorithm, headers={"kid": kid} if kid else None)


def seconds(number):
    return datetime.now(UTC) + timedelta(seconds=number)


def local(**options):
    return Identity(IdentitySettings(secret=SECRET, **options), SystemClock())


async def refused(identity, token):
    with pytest.raises(PenstockError) as refusal:
        await identity.verify(token)
    assert refusal.value.code.code == "TOKEN_INVALID"
    return refusal.value.details["reason"]


class TestLocalTokens:
    async def test_an_issued_token_names_its_caller(self):
        assert await local().verify(issue_token(SECRET, ALICE, timedelta(minutes=1))) == ALICE

    async def test_an_identity_accepts_what_it_issues_with_issuer_and_audience(self):
        identity = local(issuer="penstock", audience="console")
        assert await identity.verify(identity.issue(ALICE)) == ALICE

    async def test_another_secret(self):
        assert "signature" in await refused(local(), signed("another secret of thirty-two bytes!"))

    @pytest.mark.parametrize(
        "changed",
        [
            {"exp": None},
            {"sub": None},
            {"merchant_id": None},
            {"role": None},
            {"role": "root"},
            {"role": ["admin"]},
            {"sub": ""},
            {"merchant_id": ""},
            {"merchant_id": 7},
            {"merchant_id": "m {1}"},
            {"merchant_id": "m\x00"},
            {"merchant_id": "m\ud800"},
            {"sub": "\udfff"},
            {"sub": "x" * 129},
            {"act_for": "m-2"},
            {"act_for": ["m-2", 7]},
            {"act_for": ["m {2}"]},
            {"act_for": {"m-2": True}},
            {"exp": "tomorrow"},
            {"exp": 10**400},
        ],
        ids=str,
    )
    async def test_a_claim_that_is_missing_or_wrong(self, changed):
        assert await refused(local(), signed(**changed))

    async def test_expiry_forgives_the_leeway_and_no_more(self):
        identity = local(leeway=timedelta(seconds=30))
        assert await identity.verify(signed(exp=seconds(-20))) == ALICE
        assert await refused(identity, signed(exp=seconds(-40))) == "it has expired"

    async def test_a_token_of_the_future(self):
        assert await refused(local(), signed(nbf=seconds(600))) == "it is not valid yet"

    async def test_issuer_and_audience_are_checked_when_set(self):
        identity = local(issuer="https://id.example", audience="penstock")
        assert await identity.verify(signed(iss="https://id.example", aud=["other", "penstock"])) == ALICE
        for wrong in ({}, {"iss": "https://id.example"}, {"iss": "x", "aud": "penstock"}, {"aud": "penstock"}):
            await refused(identity, signed(**wrong))

    async def test_an_audience_nobody_asked_for_does_no_harm(self):
        assert await local().verify(signed(aud="someone")) == ALICE

    async def test_no_algorithm(self):
        await refused(local(), jwt.encode(claims(exp=4e9), None, algorithm="none"))
        header = base64.urlsafe_b64encode(b'{"alg":"None","typ":"JWT"}').rstrip(b"=").decode()
        await refused(local(), header + "." + signed().split(".")[1] + ".")

    @pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
    async def test_a_stronger_hash_of_the_same_secret_is_still_not_what_was_agreed(self, algorithm):
        await refused(local(), signed(SECRET * 2, algorithm))

    async def test_a_provider_key_means_nothing_to_a_server_without_a_provider(self):
        await refused(local(), signed(RSA_1, "RS256", "one"))

    @given(st.text(max_size=300))
    @settings(max_examples=100)
    def test_any_text_is_refused_and_nothing_else(self, text):
        asyncio.run(refused(local(), text))

    @given(st.integers(0, 10_000), st.characters(codec="ascii", categories=["Lu", "Ll", "Nd"]))
    @settings(max_examples=100)
    def test_one_changed_character_spoils_a_token(self, place, other):
        token = issue_token(SECRET, ALICE, timedelta(minutes=1))
        head, body, seal = token.split(".")
        place %= len(body)
        changed = body[:place] + other + body[place + 1 :]
        if changed != body:
            asyncio.run(refused(local(), f"{head}.{changed}.{seal}"))

    async def test_a_very_long_token_is_not_even_read(self):
        assert "too long" in await refused(local(), "a" * 10_000)


class TestCallers:
    def test_a_merchant_sees_itself_and_operators_and_admins_see_all(self):
        for role in Role:
            caller = Caller("a", "m-1", role)
            assert caller.sees("m-1")
            assert caller.sees("m-2") == (role in (Role.OPERATOR, Role.ADMIN))


class TestSettings:
    def test_a_short_secret_is_refused(self):
        with pytest.raises(ValidationError, match="at least 32 bytes; it has 5"):
            IdentitySettings(secret="short")

    def test_with_neither_secret_nor_keys_nothing_can_be_checked(self):
        assert not IdentitySettings().can_check
        assert IdentitySettings(jwks_url="https://id.example/keys", **PROVIDED).can_check

    @pytest.mark.parametrize("missing", ["issuer", "audience"])
    def test_a_providers_keys_without_issuer_or_audience_are_refused(self, missing, monkeypatch):
        monkeypatch.setenv("PENSTOCK_JWT_JWKS_URL", "https://id.example/keys")
        given = {name: value for name, value in PROVIDED.items() if name != missing}
        with pytest.raises(SettingsError) as refusal:
            SettingsFile(None).load(IdentitySettings, **given)
        assert f"set PENSTOCK_JWT_{missing.upper()}" in str(refusal.value)

    def test_keys_are_not_fetched_over_plain_http_from_elsewhere(self):
        with pytest.raises(ValidationError, match="https"):
            IdentitySettings(jwks_url="http://id.example/keys")


class Provider:
    """Stands for somebody else's server: publishes keys, counts visits, can be told to fail."""

    def __init__(self, *keys):
        self.keys = list(keys)
        self.visits = 0
        self.status = 200

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/keys"
        return self

    async def __aexit__(self, *_):
        self._server.close()
        await self._server.wait_closed()

    async def _answer(self, reader, writer):
        self.visits += 1
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps({"keys": self.keys}).encode()
        writer.write(
            b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (self.status, len(body), body)
        )
        await writer.drain()
        writer.close()


def published(private, kid, **more):
    algorithm = jwt.algorithms.RSAAlgorithm if isinstance(private, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**algorithm.to_jwk(private.public_key(), as_dict=True), "kid": kid, **more}


@pytest.fixture
async def provider():
    async with Provider(published(RSA_1, "one", use="sig", alg="RS256"), published(EC, "curve")) as made:
        yield made


@pytest.fixture
def clock():
    return TurnedClock()


@pytest.fixture
async def identity(provider, clock):
    made = Identity(IdentitySettings(jwks_url=provider.url, **PROVIDED), clock)
    yield made
    await made.close()


class TestPublishedKeys:
    async def test_both_kinds_of_key_are_taken(self, identity, provider):
        assert await identity.verify(signed(RSA_1, "RS256", "one")) == ALICE
        assert await identity.verify(signed(EC, "ES256", "curve")) == ALICE
        assert provider.visits == 1

    async def test_many_at_once_share_one_fetch(self, identity, provider):
        await asyncio.gather(*(identity.verify(signed(RSA_1, "RS256", "one")) for _ in range(20)))
        assert provider.visits == 1

    async def test_a_token_without_key_id_is_checked_where_there_is_no_choice(self, identity, provider, clock):
        assert await identity.verify(signed(RSA_1, "RS256")) == ALICE
        provider.keys.append(published(RSA_2, "two"))
        clock.advance(31)
        await refused(identity, signed(RSA_2, "RS256", "three"))
        await refused(identity, signed(RSA_1, "RS256"))

    async def test_the_wrong_key_under_a_known_id(self, identity):
        await refused(identity, signed(RSA_2, "RS256", "one"))

    async def test_a_new_key_is_found_but_not_faster_than_the_floor(self, identity, provider, clock):
        await identity.verify(signed(RSA_1, "RS256", "one"))
        provider.keys = [published(RSA_2, "two")]
        await refused(identity, signed(RSA_2, "RS256", "two"))
        assert provider.visits == 1
        clock.advance(31)
        assert await identity.verify(signed(RSA_2, "RS256", "two")) == ALICE
        await refused(identity, signed(RSA_1, "RS256", "one"))
        assert provider.visits == 2

    async def test_made_up_key_ids_do_not_hammer_the_provider(self, identity, provider):
        for number in range(20):
            await refused(identity, signed(RSA_2, "RS256", f"made-up-{number}"))
        assert provider.visits == 1

    async def test_a_provider_that_is_down_costs_nothing_while_the_key_is_known(self, identity, provider, clock):
        await identity.verify(signed(RSA_1, "RS256", "one"))
        provider.status = 503
        for _ in range(3):
            clock.advance(4000)
            assert await identity.verify(signed(RSA_1, "RS256", "one")) == ALICE
            await identity._published._fetching  # the renewal, which runs behind our back
        assert provider.visits == 4

    async def test_old_keys_are_renewed_in_the_background(self, identity, provider, clock):
        await identity.verify(signed(RSA_1, "RS256", "one"))
        provider.keys = [published(RSA_2, "two")]
        clock.advance(4000)
        assert await identity.verify(signed(RSA_1, "RS256", "one")) == ALICE
        await identity._published._fetching
        await refused(identity, signed(RSA_1, "RS256", "one"))

    async def test_a_provider_that_never_answered_is_our_trouble_not_the_callers(self, identity, provider):
        provider.status = 500
        with pytest.raises(PenstockError) as refusal:
            await identity.verify(signed(RSA_1, "RS256", "one"))
        assert refusal.value.code.code == "SERVICE_UNAVAILABLE"

    @pytest.mark.parametrize("keys", [[], "nonsense", [{"kty": "oct", "k": "c2VjcmV0"}], [None, {"kty": "RSA"}]])
    async def test_a_list_without_a_usable_key_is_a_failure(self, identity, provider, keys):
        provider.keys = keys
        with pytest.raises(PenstockError) as refusal:
            await identity.verify(signed(RSA_1, "RS256", "one"))
        assert refusal.value.code.code == "SERVICE_UNAVAILABLE"

    async def test_a_published_symmetric_key_signs_nothing(self, identity, provider):
        shared = base64.urlsafe_b64encode(SECRET.encode()).rstrip(b"=").decode()
        provider.keys.append({"kty": "oct", "k": shared, "kid": "oct", "alg": "HS256"})
        await refused(identity, signed(SECRET, "HS256", "oct"))

    async def test_an_encryption_key_or_another_algorithms_key_signs_nothing(self, identity, provider):
        provider.keys = [
            published(EC, "curve"),
            published(RSA_1, "enc", use="enc"),
            published(RSA_2, "pss", alg="PS256"),
        ]
        await refused(identity, signed(RSA_1, "RS256", "enc"))
        await refused(identity, signed(RSA_2, "RS256", "pss"))

    @pytest.mark.parametrize("changed", [{"aud": "another-app"}, {"aud": None}, {"iss": "https://else"}, {"iss": None}])
    async def test_a_token_that_the_provider_made_for_another_application(self, identity, changed):
        await refused(identity, signed(RSA_1, "RS256", "one", **changed))


class TestConfusion:
    """The attack that made HS256 infamous: the public key used as a shared secret."""

    @pytest.mark.parametrize("secret", ["", SECRET])
    async def test_a_public_key_is_never_a_secret(self, provider, secret):
        identity = Identity(IdentitySettings(jwks_url=provider.url, secret=secret, **PROVIDED), SystemClock())
        public = RSA_1.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        head, body, _ = signed(kid="one").split(".")  # the library refuses to forge, so it is done by hand
        seal = hmac.new(public, f"{head}.{body}".encode(), "sha256").digest()
        await refused(identity, f"{head}.{body}.{base64.urlsafe_b64encode(seal).rstrip(b'=').decode()}")
        await identity.close()

    async def test_with_both_configured_each_kind_is_checked_with_its_own(self, provider):
        identity = Identity(IdentitySettings(jwks_url=provider.url, secret=SECRET, **PROVIDED), SystemClock())
        assert await identity.verify(identity.issue(ALICE)) == ALICE
        assert await identity.verify(signed(RSA_1, "RS256", "one")) == ALICE
        await identity.close()
