"""One-time sign-in: a code in a link becomes a session once. Only the code's hash is stored."""

import hashlib
import secrets
from datetime import timedelta

from psycopg.types.json import Jsonb

from penstock.kernel import error_codes
from penstock.kernel.db import Tx, fetch_one
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity.caller import Caller


async def make_sign_in_code(tx: Tx, caller: Caller, ttl: timedelta) -> str:
    """A code that `redeem` takes once, within `ttl`."""
    code = secrets.token_urlsafe(32)
    await tx.execute("delete from sign_in_codes where expires_at < now() - interval '1 day'")
    await tx.execute(
        "insert into sign_in_codes (code_hash, claims, expires_at) values (%s, %s, now() + %s)",
        (_hash(code), Jsonb(caller.claims()), ttl),
    )
    return code


async def redeem(tx: Tx, code: str) -> Caller:
    """Whose code it is; of several that come at once the row lock lets one through."""
    row = await fetch_one(
        tx,
        "update sign_in_codes set used_at = now()"
        " where code_hash = %s and used_at is null and expires_at > now() returning claims",
        (_hash(code),),
    )
    if row is None:
        raise PenstockError(error_codes.SIGN_IN_CODE_INVALID)
    return Caller.from_claims(row["claims"])


def _hash(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
