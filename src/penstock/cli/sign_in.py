"""The one-time sign-in link that `penstock up` prints."""

import asyncio
from datetime import timedelta

import psycopg
from psycopg.rows import dict_row

from penstock.kernel.identity import Caller, Role, make_sign_in_code

_CALLER = Caller(user_id="admin", merchant_id="local", role=Role.ADMIN)
_LASTS = timedelta(hours=1)


def sign_in_code(database_url: str) -> str | None:
    """A code that works once; None when the database has gone away since, which is no reason to stop."""
    try:
        return asyncio.run(_make(database_url))
    except psycopg.OperationalError:
        return None


async def _make(database_url: str) -> str:
    async with await psycopg.AsyncConnection.connect(database_url, row_factory=dict_row, connect_timeout=5) as tx:
        return await make_sign_in_code(tx, _CALLER, _LASTS)
