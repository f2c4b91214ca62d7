"""Statements of many requests, sent together: one round trip and one commit for all that wait.

A request hands in one statement and gets its first row. If a statement of a group is refused, nothing of the group is
kept and each is run alone, so that a fault hits only the one that has it. Each is answered after its commit.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import psycopg

from penstock.kernel.db import Database, Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.together import Together

Row = dict[str, Any] | None
Statement = tuple[str, Mapping[str, Any]]
Key = Callable[[Statement], str]
Wish = TypeVar("Wish")
_MOST = 64
# What is wrong with a statement: the server says so, or its values cannot be put into a message for it.
_FAULTS = (psycopg.Error, ValueError, TypeError)


class GroupCommit:
    """One per process and purpose."""

    def __init__(self, database: Database, *, order: Key | None = None, turn: Key | None = None) -> None:
        """`order`: statements of a group run sorted by this, where each locks a row that others lock as well.

        `turn`: whose statement it is; of more than a group takes, each has its turn.
        """
        self._database = database
        self._order = order
        self._crowd = Together(self._run_each, most=_MOST, turn=turn)

    async def run(self, query: str, values: Mapping[str, Any]) -> Row:
        """The first row of the statement, committed; None when it has none."""
        return await self._crowd.ask((query, values))

    async def _run_each(self, group: Sequence[Statement]) -> Sequence[Row | Exception]:
        if self._order is None:
            return await or_each_alone(self._run_group, group)
        keys = [self._order(statement) for statement in group]
        ranks = sorted(range(len(group)), key=keys.__getitem__)
        found = await or_each_alone(self._run_group, [group[rank] for rank in ranks])
        answers = dict(zip(ranks, found, strict=True))
        return [answers[number] for number in range(len(group))]

    async def _run_group(self, group: Sequence[Statement]) -> Sequence[Row]:
        async with self._database.statement() as connection:
            if len(group) == 1:
                return [await (await connection.execute(*group[0], prepare=True)).fetchone()]
            return await _in_one_trip(connection, group)


async def or_each_alone(
    run: Callable[[Sequence[Wish]], Awaitable[Sequence[Row]]], group: Sequence[Wish]
) -> Sequence[Row | Exception]:
    """What became of each. Where the database went away nobody knows, so what was sent is not sent again."""
    try:
        return await run(group)
    except _FAULTS as fault:
        if len(group) == 1:
            return [fault]
    found: list[Row | Exception] = []
    for one in group:
        try:
            found += await run([one])
        except _FAULTS as fault:
            found.append(fault)
        except PenstockError as away:  # those behind need not wait for the same
            return [*found, *[away] * (len(group) - len(found))]
    return found


async def _in_one_trip(connection: Tx, group: Sequence[Statement]) -> list[Row]:
    async with connection.pipeline():
        try:
            cursors = [await connection.execute(query, values, prepare=True) for query, values in group]
        except BaseException:  # the end of a pipeline commits what was sent, unless something in it fails
            await connection.execute("select 1 / 0")
            raise
    return [await cursor.fetchone() for cursor in cursors]
