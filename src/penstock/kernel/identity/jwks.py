"""The keys a provider publishes (JWKS), cached.

A known key is served from the cache, for ever if need be: the provider may be down. A cache older than
`jwks_refresh` is renewed in the background. An unknown key id waits for one fetch, which all callers
share, and fetches never come faster than `jwks_floor`, so that made-up key ids cannot make us hammer the
provider. Only signing keys of the two kinds we accept are kept; a symmetric key in the list is ignored.
"""

import asyncio
from typing import Any

import httpx
import jwt
import structlog
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from penstock.kernel import error_codes
from penstock.kernel.clock import Clock
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity.settings import IdentitySettings

log = structlog.get_logger(__name__)
_WEAKEST_RSA_BITS = 2048
Key = tuple[str | None, str, Any]  # key id, algorithm, public key


class PublishedKeys:
    """`find` gives the key for a token's header, or None when the provider knows no such key."""

    def __init__(self, url: str, settings: IdentitySettings, clock: Clock) -> None:
        self._url = url
        self._timeout = settings.jwks_timeout.total_seconds()
        self._refresh = settings.jwks_refresh.total_seconds()
        self._floor = settings.jwks_floor.total_seconds()
        self._clock = clock
        self._keys: list[Key] = []
        self._tried_at = float("-inf")
        self._fetched_at = float("-inf")
        self._failed = False
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: object, algorithm: str) -> Any:
        key = self._cached(kid, algorithm)
        if key is not None:
            if self._clock.monotonic() - self._fetched_at > self._refresh:
                self._start_fetch()
            return key
        fetching = self._start_fetch()
        if fetching is not None:
            await asyncio.shield(fetching)
        key = self._cached(kid, algorithm)
        if key is None and self._failed:
            raise PenstockError(error_codes.SERVICE_UNAVAILABLE, component="jwks")
        return key

    async def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.gather(self._fetching, return_exceptions=True)

    def _cached(self, kid: object, algorithm: str) -> Any:
        """By key id; a token without one is checked only where there is no choice."""
        fitting = [key for known, fits, key in self._keys if fits == algorithm and (kid is None or kid == known)]
        return fitting[0] if len(fitting) == 1 else None

    def _start_fetch(self) -> asyncio.Task[None] | None:
        """The fetch under way, or a new one; None while the floor forbids it."""
        if self._fetching is not None and not self._fetching.done():
            return self._fetching
        if self._clock.monotonic() - self._tried_at < self._floor:
            return None
        self._tried_at = self._clock.monotonic()
        self._fetching = asyncio.create_task(self._fetch(), name="jwks fetch")
        return self._fetching

    async def _fetch(self) -> None:
        try:
            async with asyncio.timeout(self._timeout), httpx.AsyncClient(timeout=self._timeout) as client:
                answer = await client.get(self._url, follow_redirects=False)
            answer.raise_for_status()
            keys = _usable_keys(answer.json())
        except (httpx.HTTPError, TimeoutError, ValueError) as wrong:
            self._failed = True
            log.warning("jwks.fetch_failed", url=self._url, reason=str(wrong) or type(wrong).__name__)
            return
        self._keys, self._failed, self._fetched_at = keys, False, self._clock.monotonic()


def _usable_keys(document: Any) -> list[Key]:
    rows = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise ValueError("the answer is not a set of keys")  # noqa: TRY004  a bad document, not a bad argument
    found = [key for key in map(_usable_key, rows) if key is not None]
    if not found:
        raise ValueError("the set holds no RSA or P-256 signing key")
    return found


def _usable_key(row: Any) -> Key | None:
    if not isinstance(row, dict) or row.get("kty") not in ("RSA", "EC") or row.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK.from_dict({name: value for name, value in row.items() if name != "alg"}).key
    except (jwt.PyJWTError, ValueError):
        return None
    algorithm = _algorithm_of(key)
    if algorithm is None or row.get("alg", algorithm) != algorithm:
        return None
    return row.get("kid"), algorithm, key


def _algorithm_of(key: Any) -> str | None:
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _WEAKEST_RSA_BITS:
        return "RS256"
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        return "ES256"
    return None
