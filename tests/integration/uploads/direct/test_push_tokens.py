"""Whose notifications are believed."""

from datetime import UTC, datetime, timedelta
from functools import partial

import jwt
import pytest
from tests.support.clock import TurnedClock
from tests.support.pushing import AUDIENCE, EMAIL, ISSUER, KEYS, Pusher

from penstock.kernel import error_codes
from penstock.kernel.clock import SystemClock
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import IdentitySettings
from penstock.uploads.direct.push_tokens import PushTokens
from penstock.uploads.direct.settings import DirectSettings

seconds = partial(timedelta, 0)
CLAIMS = {"aud": AUDIENCE, "email": EMAIL, "email_verified": True, "iss": ISSUER, "iat": 1, "exp": 4_000_000_000}


@pytest.fixture(scope="module")
def pusher():
    with Pusher() as made:
        yield made


@pytest.fixture(autouse=True)
def as_new(pusher):
    pusher.published, pusher.is_away = ["key-1"], False


@pytest.fixture
async def tokens(pusher):
    made = PushTokens(pusher.settings(), IdentitySettings(), SystemClock())
    yield made
    await made.close()


def at(changes):
    """Claims with their times: `in 30 s` is counted from when the test runs."""
    now = datetime.now(UTC)
    return {
        name: int((now + value).timestamp()) if isinstance(value, timedelta) else value
        for name, value in changes.items()
    }


async def refused(tokens, token, code=error_codes.PUSH_TOKEN_INVALID):
    with pytest.raises(PenstockError) as refusal:
        await tokens.check(None if token is None else f"Bearer {token}")
    assert refusal.value.code is code
    return refusal.value.details.get("reason")


class TestWhatIsBelieved:
    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"iss": "accounts.google.com"},
            {"aud": ["https://elsewhere", AUDIENCE]},
            {"exp": seconds(-30)},
            {"iat": seconds(30)},
        ],
        ids=["as usual", "the other spelling", "several audiences", "just expired", "just made, by a fast clock"],
    )
    async def test_a_token_of_the_account_for_us(self, pusher, tokens, changes):
        await tokens.check(f"Bearer {pusher.token(**at(changes))}")

    async def test_the_keys_are_asked_for_once(self, pusher, tokens):
        before = pusher.fetches
        for _ in range(5):
            await tokens.check(f"Bearer {pusher.token()}")
        assert pusher.fetches == before + 1


class TestWhatIsNot:
    @pytest.mark.parametrize(
        "changes",
        [
            {"iss": "https://evil.example"}, {"iss": None}, {"aud": "https://elsewhere"}, {"aud": None},
            {"aud": AUDIENCE + "/"}, {"email": "someone@shelf.example"}, {"email": None}, {"email": EMAIL.upper()},
            {"email_verified": False}, {"email_verified": "true"}, {"email_verified": None}, {"exp": seconds(-90)},
            {"exp": None}, {"exp": "soon"}, {"iat": None}, {"iat": seconds(600)}, {"nbf": seconds(600)},
        ],
        ids=" ".join,  # not the values: two processes that share the tests would not agree on the time
    )  # fmt: skip
    async def test_a_claim_that_is_wrong_or_missing(self, pusher, tokens, changes):
        assert await refused(tokens, pusher.token(**at(changes)))

    async def test_a_token_that_was_right_and_has_been_changed(self, pusher, tokens):
        token = pusher.token()
        await tokens.check(f"Bearer {token}")
        head, claims, signature = token.split(".")
        assert await refused(tokens, f"{head}.{claims}.{signature[::-1]}")

    async def test_another_algorithm(self, tokens):
        public = KEYS["key-1"].public_key().public_numbers().n.to_bytes(256, "big")
        assert "RS256" in await refused(tokens, jwt.encode(CLAIMS, public, algorithm="HS256", headers={"kid": "key-1"}))
        assert "RS256" in await refused(tokens, jwt.encode(CLAIMS, None, algorithm="none", headers={"kid": "key-1"}))
        assert "RS256" in await refused(tokens, jwt.encode(CLAIMS, KEYS["key-1"], algorithm="RS512"))

    async def test_a_key_that_is_not_published(self, pusher, tokens):
        assert "unknown key" in await refused(tokens, pusher.token("key-2"))

    async def test_a_published_name_with_another_key(self, tokens):
        forged = jwt.encode(CLAIMS, KEYS["key-2"], algorithm="RS256", headers={"kid": "key-1"})
        assert await refused(tokens, forged) == "InvalidSignature"

    @pytest.mark.parametrize("token", ["", "nonsense", "a.b.c", "é.é.é", "x" * 9000])
    async def test_what_is_no_token(self, tokens, token):
        assert await refused(tokens, token)

    async def test_none_at_all(self, tokens):
        await refused(tokens, None, error_codes.TOKEN_MISSING)

    async def test_nobody_is_believed_where_no_account_is_named(self, pusher):
        for missing in ("callback_audience", "callback_email"):
            settings = pusher.settings().model_copy(update={missing: ""})
            assert "no notifications" in await refused(
                PushTokens(settings, IdentitySettings(), SystemClock()), pusher.token()
            )
        assert not DirectSettings().callback_email


class TestKeysThatChange:
    @pytest.fixture
    def clock(self):
        return TurnedClock(datetime.now(UTC))

    @pytest.fixture
    async def tokens(self, pusher, clock):
        made = PushTokens(pusher.settings(), IdentitySettings(), clock)
        yield made
        await made.close()

    async def test_a_new_key_is_asked_for_but_not_often(self, pusher, tokens, clock):
        await tokens.check(f"Bearer {pusher.token()}")
        pusher.published = ["key-1", "key-2"]
        assert "unknown key" in await refused(tokens, pusher.token("key-2"))
        clock.advance(31)
        before = pusher.fetches
        await tokens.check(f"Bearer {pusher.token('key-2')}")
        await tokens.check(f"Bearer {pusher.token()}")
        assert pusher.fetches == before + 1

    async def test_a_token_that_was_right_is_not_when_its_key_is_withdrawn(self, pusher, tokens, clock):
        token = pusher.token()
        for _ in range(2):
            await tokens.check(f"Bearer {token}")
        pusher.published = ["key-2"]
        clock.advance(31)
        await tokens.check(f"Bearer {pusher.token('key-2')}")
        assert "unknown key" in await refused(tokens, token)

    async def test_without_the_key_server_it_is_our_trouble_and_not_theirs(self, pusher, tokens):
        pusher.is_away = True
        await refused(tokens, pusher.token(), error_codes.SERVICE_UNAVAILABLE)

    async def test_a_known_key_does_not_need_the_key_server(self, pusher, tokens, clock):
        await tokens.check(f"Bearer {pusher.token()}")
        pusher.is_away = True
        clock.advance(31)
        await tokens.check(f"Bearer {pusher.token()}")
        await refused(tokens, pusher.token("key-2"), error_codes.SERVICE_UNAVAILABLE)
