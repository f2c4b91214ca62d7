"""PostgreSQL: one pool per process, one transaction per entry.

An entry (request, job, handler) opens `transaction()` and passes the `Tx` down; nobody below commits.
A transaction is never held across OCR, LLM, HTTP or the object store: claim, work, settle instead.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import AsyncConnectionPool

from penstock.kernel import error_codes, json
from penstock.kernel.cancellation import cancellations, raise_if_cancelled
from penstock.kernel.errors import PenstockError
from penstock.kernel.shares import Shares

Tx = psycopg.AsyncConnection[DictRow]


class _Now:
    """Stands for the database's own clock among values of columns: nobody need ask for the time first."""


NOW = _Now()

set_json_dumps(json.dumps)
set_json_loads(json.loads)


# A server that vanished without a word is noticed within a minute.
_CONNECTION = {
    "connect_timeout": 3,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}

_FRESH_SECONDS = 0.5
_KNOWS_LIMITS = 170_000  # the version from which on PostgreSQL limits whole transactions
_STALLS = 3


class Database:
    """The pool. `open` at start, `close` at the end, `transaction()` in between."""

    has_long_transactions = True  # a role without any sets this to False: then pauses inside a pipeline end as well

    def __init__(
        self, url: str, *, name: str, size: int = 8, wait_seconds: float = 5, stall_seconds: float = 20
    ) -> None:
        self._stall_seconds = stall_seconds
        self._shares = Shares("database", max(1, size // 2), wait_seconds)
        self._resting_since: WeakKeyDictionary[Tx, float] = WeakKeyDictionary()
        self._pool: AsyncConnectionPool[Tx] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=size,
            timeout=wait_seconds,
            open=False,
            check=self._check_after_rest,
            configure=self._limit_pauses,
            reconnect_timeout=0,
            # A statement outside of `transaction()` is a transaction of its own, without anything being said about it.
            kwargs={"autocommit": True, "row_factory": dict_row, "application_name": f"penstock-{name}", **_CONNECTION},
        )

    async def _limit_pauses(self, connection: Tx) -> None:
        """A process that is paused inside a transaction is cut off, so that its locks hold nobody up for long.

        One that is paused inside a pipeline is not idle to the server; only a limit on the whole transaction ends it.
        """
        await connection.execute(f"set idle_in_transaction_session_timeout = {int(self._stall_seconds * 1000)}")
        if not self.has_long_transactions and connection.info.server_version >= _KNOWS_LIMITS:
            await connection.execute(f"set transaction_timeout = {int(self._stall_seconds * _STALLS * 1000)}")

    async def _check_after_rest(self, connection: Tx) -> None:
        """A round trip that finds out whether the server is still there; not when it was there a moment ago."""
        if time.monotonic() - self._resting_since.get(connection, 0.0) > _FRESH_SECONDS:
            await AsyncConnectionPool.check_connection(connection)

    async def open(self) -> None:
        await self._pool.open()

    async def close(self) -> None:
        await self._pool.close()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Tx]:
        """The pool's own context would end a transaction that there never is, and its `reset` be a task each time."""
        since = cancellations()
        connection = await self._pool.getconn()
        try:
            raise_if_cancelled(since)
            yield connection
        finally:
            self._resting_since[connection] = time.monotonic()
            await self._pool.putconn(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Tx]:
        """Commits when the block ends, rolls back when it raises. No server: DB_UNAVAILABLE.

        One merchant's requests hold at most half of the pool; more of them wait, then RATE_LIMITED.
        """
        try:
            async with self._shares.one_unit(), self._connection() as connection, connection.transaction():
                yield connection
                _refuse_failed(connection)
        except psycopg.Error as failure:
            if not is_connection_lost(failure):
                raise
            raise PenstockError(error_codes.DB_UNAVAILABLE) from failure

    @asynccontextmanager
    async def statement(self) -> AsyncIterator[Tx]:
        """A connection on which each statement is a transaction of its own, for the one that needs no company."""
        try:
            async with self._connection() as connection:
                yield connection
        except psycopg.Error as failure:
            if not is_connection_lost(failure):
                raise
            raise PenstockError(error_codes.DB_UNAVAILABLE) from failure


def _refuse_failed(connection: Tx) -> None:
    """PostgreSQL answers COMMIT after a failed statement with a silent rollback; that must not pass for success."""
    if connection.info.transaction_status is TransactionStatus.INERROR:
        raise psycopg.errors.InFailedSqlTransaction("a statement failed and its error was passed over: nothing is kept")


# Connection trouble, shutting down, out of resources, cut off for pausing in a transaction, a standby.
_AWAY = ("08", "57P", "53", "25P03", "25P04", "25006")


def is_connection_lost(failure: psycopg.Error) -> bool:
    """Server gone, restarting or refusing, as against a fault of the statement itself."""
    if failure.sqlstate is None:
        return isinstance(failure, psycopg.OperationalError)
    return failure.sqlstate.startswith(_AWAY)


async def fetch_one(tx: Tx, query: Any, params: Any = None) -> dict[str, Any] | None:
    cursor = await tx.execute(query, params)
    return await cursor.fetchone()


async def fetch_all(tx: Tx, query: Any, params: Any = None) -> list[dict[str, Any]]:
    cursor = await tx.execute(query, params)
    return await cursor.fetchall()


async def server_time(tx: Tx) -> datetime:
    """Now, by the database's clock: leases and due times are compared with it."""
    row = await fetch_one(tx, "select clock_timestamp() as now")
    assert row is not None  # noqa: S101  it always has one row
    found: datetime = row["now"]
    return found
