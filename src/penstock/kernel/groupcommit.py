"""Statements of many requests, sent together: one round trip and one commit for all that wait.

A request hands in one statement and gets its first row. While a group is under way the next one gathers, so a lone
statement never waits and a crowd shares. If a statement of a group is refused, nothing of the group is kept and
each is run alone, so that a fault hits only the one that has it. Each is answered after its commit.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import psycopg

from penstock.kernel.db import Database, Tx
from penstock.kernel.errors import PenstockError

Row = dict[str, Any] | None
Wish = tuple[str, Mapping[str, Any], "asyncio.Future[Row]"]
_MOST = 64
# What is wrong with a statement: the server says so, or its values cannot be put into a message for it.
FAULTS = (psycopg.Error, ValueError, TypeError)


class GroupCommit:
    """One per process and purpose."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[Wish] = []
        self._running: asyncio.Task[None] | None = None

    async def run(self, query: str, values: Mapping[str, Any]) -> Row:
        """The first row of the statement, committed; None when it has none."""
        answer: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        self._waiting.append((query, values, answer))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run_groups(), name="group commit")
        return await answer

    async def _run_groups(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            try:
                await self._run_group(group)
            except FAULTS:
                for one in group:
                    await self._run_alone(one)
            except PenstockError as away:  # what became of the group nobody knows: it must not be run again
                for _, _, answer in group:
                    _fail(answer, away)

    async def _run_group(self, group: list[Wish]) -> None:
        async with self._database.statement() as connection:
            if len(group) == 1:
                rows = [await (await connection.execute(*group[0][:2], prepare=True)).fetchone()]
            else:
                rows = await _together(connection, group)
        for (_, _, answer), row in zip(group, rows, strict=True):
            if not answer.done():  # the request may have been cut off
                answer.set_result(row)

    async def _run_alone(self, one: Wish) -> None:
        try:
            await self._run_group([one])
        except (*FAULTS, PenstockError) as failure:
            _fail(one[2], failure)


async def _together(connection: Tx, group: list[Wish]) -> list[Row]:
    async with connection.pipeline():
        try:
            cursors = [await connection.execute(query, values, prepare=True) for query, values, _ in group]
        except BaseException:  # the end of a pipeline commits what was sent, unless something in it fails
            await connection.execute("select 1 / 0")
            raise
    return [await cursor.fetchone() for cursor in cursors]


def _fail(answer: "asyncio.Future[Row]", failure: Exception) -> None:
    if not answer.done():
        answer.set_exception(failure)
