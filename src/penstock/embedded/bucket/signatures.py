"""V4 signatures, checked on exactly what came: method, path and query as sent, every signed header.

A signed address is a right to do one thing for a while. So a header that was signed must come with that value, and a
header that steers the bucket (x-goog-…) must have been signed.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from penstock.embedded.bucket.refusals import Refusal

ALGORITHM = "GOOG4-RSA-SHA256"
_LONGEST_SECONDS = 604_800
_AHEAD = timedelta(minutes=15)
_SCOPE = re.compile(r"(?P<email>[^/]{1,320})/(?P<day>\d{8})/[A-Za-z0-9-]{1,64}/storage/goog4_request")
_NEEDED = ("X-Goog-Algorithm", "X-Goog-Credential", "X-Goog-Date", "X-Goog-Expires", "X-Goog-SignedHeaders",
           "X-Goog-Signature")  # fmt: skip


def is_signed(query: Mapping[str, str]) -> bool:
    return "X-Goog-Signature" in query or "X-Goog-Algorithm" in query


class Signatures:
    """Whose signatures count."""

    def __init__(self, email: str, key: rsa.RSAPublicKey) -> None:
        self._email = email
        self._key = key

    def check(self, method: str, raw_path: str, raw_query: str, headers: Mapping[str, str], now: datetime) -> None:
        """A Refusal unless all of it was signed and the time is not over."""
        pairs = [_pair(each) for each in raw_query.split("&") if each]
        query = dict(pairs)
        if len(query) < len(pairs) or any(name not in query for name in _NEEDED):
            raise Refusal(400, "AuthorizationQueryParametersError", "The address is not signed completely.")
        if query["X-Goog-Algorithm"] != ALGORITHM:
            raise Refusal(400, "AuthorizationQueryParametersError", f"The algorithm is {ALGORITHM}.")
        scope = _SCOPE.fullmatch(query["X-Goog-Credential"])
        if scope is None or scope["day"] != query["X-Goog-Date"][:8]:
            raise Refusal(400, "AuthorizationQueryParametersError", "X-Goog-Credential cannot be read.")
        _check_time(query["X-Goog-Date"], query["X-Goog-Expires"], now)
        signed = query["X-Goog-SignedHeaders"].split(";")
        lines = _signed_lines(signed, headers)
        canonical = "\n".join((
            method, raw_path, _canonical_query(pairs), *lines, "", query["X-Goog-SignedHeaders"], "UNSIGNED-PAYLOAD"
        ))  # fmt: skip
        digest = hashlib.sha256(canonical.encode("latin-1")).hexdigest()
        place = query["X-Goog-Credential"].partition("/")[2]
        text = "\n".join((ALGORITHM, query["X-Goog-Date"], place, digest))
        if scope["email"] != self._email or not self._is_ours(text, query["X-Goog-Signature"]):
            raise Refusal(403, "SignatureDoesNotMatch", "The signature does not fit this request.")

    def _is_ours(self, text: str, signature: str) -> bool:
        try:
            self._key.verify(bytes.fromhex(signature), text.encode("latin-1"), padding.PKCS1v15(), SHA256())
        except (InvalidSignature, ValueError):
            return False
        return True


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return unquote(name, encoding="latin-1"), unquote(value, encoding="latin-1")


def _canonical_query(pairs: list[tuple[str, str]]) -> str:
    kept = sorted(
        (quote(name, safe="~", encoding="latin-1"), quote(value, safe="~", encoding="latin-1"))
        for name, value in pairs
        if name != "X-Goog-Signature"
    )
    return "&".join(f"{name}={value}" for name, value in kept)


def _check_time(date: str, expires: str, now: datetime) -> None:
    try:
        begun = datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise Refusal(400, "AuthorizationQueryParametersError", "X-Goog-Date cannot be read.") from None
    if not expires.isascii() or not expires.isdigit() or len(expires) > 6 or not 0 < int(expires) <= _LONGEST_SECONDS:
        raise Refusal(400, "AuthorizationQueryParametersError", "X-Goog-Expires is 1 to 604800 seconds.")
    if begun > now + _AHEAD:
        raise Refusal(403, "RequestTimeTooSkewed", "The signature is not valid yet.")
    if now > begun + timedelta(seconds=int(expires)):
        raise Refusal(400, "ExpiredToken", "The signed address is too old.")


def _signed_lines(signed: list[str], headers: Mapping[str, str]) -> list[str]:
    if "host" not in signed or signed != sorted(set(signed)):
        raise Refusal(400, "AuthorizationQueryParametersError", "X-Goog-SignedHeaders cannot be read.")
    for name in signed:
        if name not in headers:
            raise Refusal(400, "MalformedSecurityHeader", f"The signed header {name[:100]!r} is missing.")
    for name in headers:
        if name.startswith("x-goog-") and name not in signed:
            raise Refusal(403, "AccessDenied", f"The header {name[:100]!r} was not signed.")
    return [f"{name}:{' '.join(headers[name].split())}" for name in signed]
