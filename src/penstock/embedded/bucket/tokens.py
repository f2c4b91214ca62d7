"""Tokens for the official clients: a service account shows a grant that it signed, and gets a token for an hour.

Tokens are signed with a secret made of the account's key, so they outlive a restart and nothing is kept of them.
"""

import hashlib
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives import serialization

from penstock.embedded.bucket.keys import SIGNER, Keys
from penstock.embedded.bucket.refusals import Refusal
from penstock.kernel.clock import Clock

_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_GOOGLE = "https://oauth2.googleapis.com/token"  # what google-auth writes, wherever it sends the grant
_LASTS = timedelta(hours=1)
_LEEWAY = timedelta(minutes=1)


class Tokens:
    """Gives them out and knows them again."""

    def __init__(self, keys: Keys, address: str, clock: Clock) -> None:
        self._public = keys.signer.public_key()
        self._audiences = [_GOOGLE, f"{address}/token"]
        self._clock = clock
        plain = keys.signer.private_bytes(
            serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        self._secret = hashlib.sha256(b"tokens of the embedded bucket" + plain).digest()

    def grant(self, form: bytes) -> dict[str, Any]:
        """What `/token` answers."""
        try:
            fields = parse_qs(form.decode(), max_num_fields=16)
        except (UnicodeDecodeError, ValueError):
            raise _refused("the form cannot be read") from None
        if fields.get("grant_type") != [_GRANT] or len(fields.get("assertion", [])) != 1:
            raise _refused("only a signed JWT of the service account is a grant here")
        try:
            claims = jwt.decode(
                fields["assertion"][0], self._public, algorithms=["RS256"], audience=self._audiences, issuer=SIGNER,
                leeway=_LEEWAY, options={"require": ["exp", "iat", "iss", "aud"]},
            )  # fmt: skip
        except (jwt.PyJWTError, ValueError, OverflowError, RecursionError):
            raise _refused("the JWT was not signed by this service account, or is too old") from None
        now = self._clock.now()
        token = jwt.encode({"sub": str(claims["iss"]), "exp": now + _LASTS}, self._secret, algorithm="HS256")
        return {"access_token": token, "token_type": "Bearer", "expires_in": int(_LASTS.total_seconds())}

    def check(self, authorization: str | None) -> None:
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Refusal(401, "AuthenticationRequired", "Anonymous callers have no access to this bucket.")
        try:
            jwt.decode(token.strip(), self._secret, algorithms=["HS256"], options={"require": ["exp", "sub"]})
        except (jwt.PyJWTError, ValueError, OverflowError, RecursionError):
            raise Refusal(401, "InvalidCredentials", "The token is not one of ours, or is too old.") from None


def _refused(reason: str) -> Refusal:
    return Refusal(400, "invalid_grant", reason)
