"""OAuth2 client credentials: a token per source and credential, renewed before it ends, by one caller at a time.

Invariant: a token endpoint that refuses us is SOURCE_AUTH_FAILED, one that does not answer SOURCE_UNAVAILABLE; neither
is ever answered by going on without a token.
"""

import asyncio
import base64
import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from penstock.harvest.calling.answers import Answer
from penstock.harvest.calling.credentials import ALONE, Secret
from penstock.harvest.calling.request import Request
from penstock.harvest.calling.transport import Additions, Transport
from penstock.harvest.spec import OAuth2, Sections
from penstock.kernel import error_codes
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.errors import PenstockError

_UNSAID = 300.0  # seconds that a token is used when its end is not told
_LONGEST = 86_400.0
_MOST_BYTES = 65_536

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Token:
    text: str = field(repr=False)
    renew_at: float


class Tokens:
    """One per process."""

    def __init__(self, transport: Transport, clock: Clock | None = None) -> None:
        self._transport = transport
        self._clock: Clock = clock or SystemClock()
        self._tokens: dict[_Key, _Token] = {}
        self._asking: defaultdict[_Key, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def token(self, source: str, sections: Sections, secret: Secret) -> str:
        auth = sections.auth
        key = (source, auth.credential_ref or "")
        async with self._asking[key]:
            known = self._tokens.get(key)
            if known is None or known.renew_at <= self._clock.monotonic():
                if auth.oauth2 is None:
                    raise _failed("OAUTH2_NOT_CONFIGURED")
                known = self._tokens[key] = await self._fresh(sections, auth.oauth2, secret)
            return known.text

    def forget(self, source: str, code: str, refused: str) -> None:
        """Only the token that was refused: another caller may have a new one already."""
        known = self._tokens.get((source, code))
        if known is not None and known.text == refused:
            del self._tokens[source, code]

    async def _fresh(self, sections: Sections, oauth2: OAuth2, secret: Secret) -> _Token:
        identity, password = _client(secret)
        form = {"grant_type": "client_credentials"} | ({"scope": oauth2.scope} if oauth2.scope else {})
        pair = f"{quote(identity, safe='')}:{quote(password, safe='')}".encode()
        basic = Additions(headers={"Authorization": f"Basic {base64.b64encode(pair).decode()}"})
        answer = await self._ask(sections, oauth2, form, basic)
        if answer.status in {400, 401} and b"invalid_client" in answer.body:  # some only read the form
            posted = Additions(fields={"client_id": identity, "client_secret": password})
            answer = await self._ask(sections, oauth2, form, posted)
        return self._read(answer, oauth2)

    async def _ask(self, sections: Sections, oauth2: OAuth2, form: dict[str, str], more: Additions) -> Answer:
        http = sections.http.model_copy(update={"follow_redirects": False, "max_body_bytes": _MOST_BYTES})
        plain = sections.model_copy(update={"http": http})
        request = Request("POST", oauth2.token_url, headers={"Accept": "application/json"}, form=form)
        answer = await self._transport.send(plain, request, correlation_id="oauth2", additions=more)
        if answer.status == 429 or answer.status >= 500:
            raise PenstockError(error_codes.SOURCE_UNAVAILABLE, reason="TOKEN_ENDPOINT", status=answer.status)
        return answer

    def _read(self, answer: Answer, oauth2: OAuth2) -> _Token:
        if answer.status != 200:
            raise _failed("TOKEN_REFUSED", status=answer.status)
        try:
            found = json.loads(answer.body)
            text, kind = found["access_token"], str(found.get("token_type", "bearer"))
            lasts = float(found.get("expires_in") or _UNSAID)
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
            raise _failed("TOKEN_UNREADABLE") from None
        if not isinstance(text, str) or not text or kind.lower() != "bearer" or not lasts > 0:
            raise _failed("TOKEN_UNREADABLE")
        lasts = min(lasts, _LONGEST)
        early = min(oauth2.early.total_seconds(), lasts / 2)
        return _Token(text, self._clock.monotonic() + lasts - early)


def _client(secret: Secret) -> tuple[str, str]:
    """Two parts, or one that reads `id:secret`."""
    identity, password = secret.parts.get("clientId"), secret.parts.get("clientSecret") or secret.parts.get(ALONE)
    if identity is None and password is not None:
        identity, _, password = password.partition(":")
    if not identity or not password:
        raise _failed("CLIENT_SECRET_INCOMPLETE", expected="clientId and secret")
    return identity, password


def _failed(reason: str, **details: Any) -> PenstockError:
    return PenstockError(error_codes.SOURCE_AUTH_FAILED, reason=reason, **details)
