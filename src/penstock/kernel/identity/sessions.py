"""Sessions that were signed out: rows in PostgreSQL, as Redis may be flushed at any time.

A session's token carries an id (`jti`). A process asks for it at most once in `_FRESH_SECONDS` and remembers the
answer in between, so a request costs a look into a dict. A sign-out counts at once in the process that handled it,
and in the others when they ask next.
"""

from datetime import UTC, datetime

from penstock.kernel.clock import Clock
from penstock.kernel.db import Database, fetch_one
from penstock.kernel.identity.caller import Caller

_FRESH_SECONDS = 1.0
_MOST_KNOWN = 4096


class EndedSessions:
    """Tells which sessions were signed out, and signs them out."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._asked_at: dict[str, float] = {}  # sessions that had not ended when they were looked up

    async def has_ended(self, caller: Caller) -> bool:
        """False for callers without a session. Raises DB_UNAVAILABLE when it cannot be known."""
        session_id = caller.session_id
        if session_id is None:
            return False
        now = self._clock.monotonic()
        if now - self._asked_at.get(session_id, float("-inf")) < _FRESH_SECONDS:
            return False
        if await self._ask(session_id):
            self._asked_at.pop(session_id, None)
            return True
        if len(self._asked_at) >= _MOST_KNOWN:
            self._asked_at.clear()
        self._asked_at[session_id] = now
        return False

    async def end(self, caller: Caller) -> None:
        """Ends the caller's session: its token is refused from now on. Does nothing for callers without a session."""
        if caller.session_id is None or caller.expires_at is None:
            return
        async with self._database.transaction() as tx:
            await tx.execute("delete from ended_sessions where expires_at < now() - interval '1 day'")
            await tx.execute(
                "insert into ended_sessions (session_id, expires_at) values (%s, %s) on conflict do nothing",
                (caller.session_id, datetime.fromtimestamp(caller.expires_at, UTC)),
            )
        self._asked_at.pop(caller.session_id, None)

    async def _ask(self, session_id: str) -> bool:
        async with self._database.transaction() as tx:
            row = await fetch_one(tx, "select 1 from ended_sessions where session_id = %s", (session_id,))
        return row is not None
