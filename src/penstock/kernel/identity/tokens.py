"""Tokens: signed with our secret, or by a provider whose keys are published.

Invariant: the algorithm of a token only selects which of our keys may check it, and the kinds never mix.
HS256 meets nothing but the local secret, RS256 nothing but a published RSA key, ES256 nothing but a
published P-256 key; every other algorithm, `none` first of all, is refused before any key is looked at.
"""

import secrets
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt

from penstock.kernel import error_codes
from penstock.kernel.clock import Clock
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity.caller import Caller
from penstock.kernel.identity.jwks import PublishedKeys
from penstock.kernel.identity.sessions import EndedSessions
from penstock.kernel.identity.settings import IdentitySettings

_LONGEST_TOKEN = 8192
_MOST_KNOWN = 2048


def issue_token(secret: str, caller: Caller, ttl: timedelta, *, issuer: str = "", audience: str = "") -> str:
    """A token of our own for this caller; with a session id it can be ended before it expires."""
    now = datetime.now(UTC)
    claims: dict[str, Any] = {**caller.claims(), "iat": now, "exp": now + ttl}
    if caller.session_id is not None:
        claims["jti"] = caller.session_id
    if issuer:
        claims["iss"] = issuer
    if audience:
        claims["aud"] = audience
    return jwt.encode(claims, secret, algorithm="HS256")


class Identity:
    """Checks tokens and makes those of a sign-in. Without `sessions` it cannot tell which were signed out."""

    def __init__(self, settings: IdentitySettings, clock: Clock, sessions: EndedSessions | None = None) -> None:
        self._sessions = sessions
        self._settings = settings
        self._secret = settings.secret.get_secret_value()
        self._published = PublishedKeys(settings.jwks_url, settings, clock) if settings.jwks_url else None
        self._clock = clock
        self._known: dict[str, Caller] = {}  # signed with our own secret, which stays the same while we run

    async def close(self) -> None:
        if self._published is not None:
            await self._published.close()

    def issue(self, caller: Caller, ttl: timedelta | None = None) -> str:
        """A token that `verify` takes; TOKEN_INVALID when only a provider may issue them."""
        if not self._secret:
            raise PenstockError(error_codes.TOKEN_INVALID, reason="this server has no secret to sign tokens with")
        wanted = self._settings
        return issue_token(
            self._secret, caller, ttl or wanted.session_ttl, issuer=wanted.issuer, audience=wanted.audience
        )

    def issue_session(self, caller: Caller) -> str:
        """A token of a sign-in, which sign-out ends; TOKEN_INVALID when only a provider may issue them."""
        return self.issue(replace(caller, session_id=secrets.token_urlsafe(16)))

    async def verify(self, token: str) -> Caller:
        """The caller a token stands for, or TOKEN_INVALID. `reason` is for people, and says nothing secret."""
        caller = await self._signed(token)
        if await self.has_signed_out(caller):
            raise _refused("its session was signed out")
        return caller

    async def has_signed_out(self, caller: Caller) -> bool:
        """Whether the caller's session has ended; tokens of scripts and providers have none."""
        return self._sessions is not None and await self._sessions.has_ended(caller)

    async def sign_out(self, caller: Caller) -> None:
        """Refuse the token of this caller's session from now on."""
        if self._sessions is not None:
            await self._sessions.end(caller)

    async def _signed(self, token: str) -> Caller:
        """The caller whom a valid signature names."""
        if len(token) > _LONGEST_TOKEN:
            raise _refused("the token is too long")
        known = self._known.get(token)
        if known is not None and self._is_current(known):
            return known
        try:
            header = jwt.get_unverified_header(token)
            algorithm = str(header.get("alg"))
            key = await self._key_for(algorithm, header)
            caller = Caller.from_claims(self._checked_claims(token, key, algorithm))
        except jwt.PyJWTError as wrong:
            raise _refused(_explain(wrong)) from wrong
        except (ValueError, OverflowError, RecursionError) as wrong:
            raise _refused("a claim is missing or malformed") from wrong
        if algorithm != "HS256":
            return replace(caller, session_id=None)  # a provider's `jti` is no session of ours
        self._remember(token, caller)
        return caller

    def _is_current(self, caller: Caller) -> bool:
        return caller.expires_at is not None and self._clock.now().timestamp() < caller.expires_at

    def _remember(self, token: str, caller: Caller) -> None:
        """A client sends its token with every chunk; checking the signature each time costs more than the rest."""
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[token] = caller

    async def _key_for(self, algorithm: str, header: dict[str, Any]) -> Any:
        if algorithm == "HS256" and self._secret:
            return self._secret
        if algorithm in ("RS256", "ES256") and self._published is not None:
            key = await self._published.find(header.get("kid"), algorithm)
            if key is not None:
                return key
            raise _refused("it is signed with an unknown key")
        raise _refused("its algorithm is not accepted here")

    def _checked_claims(self, token: str, key: Any, algorithm: str) -> dict[str, Any]:
        wanted = self._settings
        return jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            issuer=wanted.issuer or None,
            audience=wanted.audience or None,
            leeway=wanted.leeway,
            options={"require": ["exp", "sub"], "verify_aud": bool(wanted.audience)},
        )


def _refused(reason: str) -> PenstockError:
    return PenstockError(error_codes.TOKEN_INVALID, reason=reason)


def _explain(wrong: jwt.PyJWTError) -> str:
    if isinstance(wrong, jwt.ExpiredSignatureError):
        return "it has expired"
    if isinstance(wrong, jwt.InvalidIssuerError | jwt.InvalidAudienceError):
        return "it was issued by, or for, someone else"
    if isinstance(wrong, jwt.ImmatureSignatureError):
        return "it is not valid yet"
    if isinstance(wrong, jwt.MissingRequiredClaimError):
        return "a claim is missing or malformed"
    return "it cannot be read, or its signature is wrong"
