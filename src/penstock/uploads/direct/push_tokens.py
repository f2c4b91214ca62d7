"""Is a notification from who may send them? Its token must be signed by a published key, for us, by that account.

Nothing is left out: algorithm, issuer, audience, both times, the account and that its address was verified. A sender
uses a token for many notifications: one that was right is known again until it expires, or its key is withdrawn.
"""

import base64
from dataclasses import dataclass
from typing import Any

import jwt

from penstock.kernel import error_codes, json
from penstock.kernel.clock import Clock
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import IdentitySettings, PublishedKeys
from penstock.uploads.direct.settings import DirectSettings

_LONGEST = 8192
_MOST_KNOWN = 256


@dataclass(frozen=True, slots=True)
class _Known:
    """A token that was right: the key that signed it, and until when it is."""

    kid: Any
    key: Any
    expires_at: float


class PushTokens:
    """Keys are cached; a new key id is asked for, but not often."""

    def __init__(self, settings: DirectSettings, identity: IdentitySettings, clock: Clock) -> None:
        self._settings = settings
        self._keys = PublishedKeys(settings.callback_jwks_url, identity, clock)
        self._clock = clock
        self._known: dict[str, _Known] = {}

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
        if await self._is_known(token):
            return
        try:
            header = _header(token)
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
        self._remember(token, _Known(header.get("kid"), key, float(claims["exp"])))

    async def _is_known(self, token: str) -> bool:
        known = self._known.get(token)
        if known is None:
            return False
        if self._clock.now().timestamp() < known.expires_at and await self._keys.find(known.kid, "RS256") is known.key:
            return True
        del self._known[token]
        return False

    def _remember(self, token: str, known: "_Known") -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[token] = known

    def _claims(self, token: str, key: Any) -> dict[str, Any]:
        wanted = self._settings
        return jwt.decode(
            token, key, algorithms=["RS256"], audience=wanted.callback_audience, issuer=list(wanted.callback_issuers),
            leeway=wanted.callback_leeway, options={"require": ["exp", "iat", "iss", "aud"]},
        )  # fmt: skip


def _header(token: str) -> dict[str, Any]:
    """Only to choose the key: what is decoded with it is checked whole, once."""
    encoded = token.partition(".")[0]
    found = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    if not isinstance(found, dict):
        raise ValueError("the header is not an object")  # noqa: TRY004  one error for bad headers
    return found


def _refused(reason: str) -> PenstockError:
    return PenstockError(error_codes.PUSH_TOKEN_INVALID, reason=reason)
