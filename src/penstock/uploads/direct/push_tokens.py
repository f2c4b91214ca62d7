"""Is a notification from who may send them? Its token must be signed by a published key, for us, by that account.

Nothing is left out: algorithm, issuer, audience, both times, the account and that its address was verified.
"""

from typing import Any

import jwt

from penstock.kernel import error_codes
from penstock.kernel.clock import Clock
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import IdentitySettings, PublishedKeys
from penstock.uploads.direct.settings import DirectSettings

_LONGEST = 8192


class PushTokens:
    """Keys are cached; a new key id is asked for, but not often."""

    def __init__(self, settings: DirectSettings, identity: IdentitySettings, clock: Clock) -> None:
        self._settings = settings
        self._keys = PublishedKeys(settings.callback_jwks_url, identity, clock)

    async def close(self) -> None:
        await self._keys.close()

    async def check(self, authorization: str | None) -> None:
        """PUSH_TOKEN_INVALID with the reason, or TOKEN_MISSING; SERVICE_UNAVAILABLE when the keys cannot be had."""
        wanted = self._settings
        if not authorization:
            raise PenstockError(error_codes.TOKEN_MISSING)
        if not wanted.callback_audience or not wanted.callback_email:
            raise _refused("no notifications are expected: DIRECT_CALLBACK_AUDIENCE or DIRECT_CALLBACK_EMAIL is empty")
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token or len(token) > _LONGEST:
            raise _refused("there is no bearer token")
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") != "RS256":
                raise _refused("its algorithm is not RS256")
            key = await self._keys.find(header.get("kid"), "RS256")
            if key is None:
                raise _refused("it is signed with an unknown key")
            claims = self._claims(token, key)
        except jwt.PyJWTError as wrong:
            raise _refused(type(wrong).__name__.removesuffix("Error")) from wrong
        except (ValueError, OverflowError, RecursionError) as wrong:
            raise _refused("it cannot be read") from wrong
        if claims.get("email") != wanted.callback_email or claims.get("email_verified") is not True:
            raise _refused("it was made for another account")

    def _claims(self, token: str, key: Any) -> dict[str, Any]:
        wanted = self._settings
        return jwt.decode(
            token, key, algorithms=["RS256"], audience=wanted.callback_audience, issuer=list(wanted.callback_issuers),
            leeway=wanted.callback_leeway, options={"require": ["exp", "iat", "iss", "aud"]},
        )  # fmt: skip


def _refused(reason: str) -> PenstockError:
    return PenstockError(error_codes.PUSH_TOKEN_INVALID, reason=reason)
