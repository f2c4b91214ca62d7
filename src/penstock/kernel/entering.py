"""New rows of many requests, each with the record of its first state and its event, written by one statement.

As `statemachine.enter_query`, for where a crowd comes: the price of a statement and of a commit is shared. If the
statement is refused, nothing of it is kept and each row is tried alone, so that a fault hits only the one that has
it. Each is answered after the commit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from psycopg import sql

from penstock.kernel import json
from penstock.kernel.db import Database, Tx, fetch_one
from penstock.kernel.groupcommit import Row, or_each_alone
from penstock.kernel.outbox import COLUMNS, row_of
from penstock.kernel.statemachine import Machine, Query, Step, event_of
from penstock.kernel.together import Together

_MOST = 64
_COLUMNS = tuple(COLUMNS.split(", "))
_HISTORY = "entity_type, entity_id, from_status, to_status, trigger, operator"


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A row by its columns, with what the history and the outbox are told of it."""

    row: Mapping[str, Any]
    history: Mapping[str, Any]
    event: Mapping[str, Any]


def newcomer(machine: Machine, step: Step, row: Mapping[str, Any]) -> Newcomer:
    """To be called by the request itself: its trace goes with the event."""
    transition = machine.declared(None, step.target, step.by)
    event = dict(zip(_COLUMNS, row_of(event_of(machine, transition, step)), strict=True))
    event["payload"] = msgspec.Raw(event["payload"].encode())
    history = {
        "entity_type": machine.entity, "entity_id": step.entity_id, "to_status": str(step.target),
        "trigger": step.trigger, "operator": step.operator or step.by,
    }  # fmt: skip
    return Newcomer(row, history, event)


class Entering:
    """One per process and purpose.

    `insert` selects from `given`, which has the columns of the machine's table, and returns the key and what is wanted
    of the row; `values` are those that it has in common for all rows.
    """

    def __init__(self, database: Database, machine: Machine, insert: str, values: Mapping[str, Any]) -> None:
        self._database, self._machine = database, machine
        self._text, self._values = _statement(machine, insert).as_string(None), values
        self._crowd = Together(self._enter_each, most=_MOST)

    async def enter(self, one: Newcomer) -> Row:
        """What `insert` returned of it, committed; None when it made no row."""
        return await self._crowd.ask(one)

    async def enter_in(self, tx: Tx, one: Newcomer) -> Row:
        """The same in the caller's transaction."""
        return await fetch_one(tx, *self._query([one]))

    async def _enter_each(self, group: Sequence[Newcomer]) -> Sequence[Row | Exception]:
        return await or_each_alone(self._enter_all, group)

    async def _enter_all(self, group: Sequence[Newcomer]) -> Sequence[Row]:
        key = self._machine.key
        async with self._database.statement() as connection:
            cursor = await connection.execute(*self._query(group), prepare=True)
            made = {row[key]: row for row in await cursor.fetchall()}
        return [made.get(one.row[key]) for one in group]

    def _query(self, group: Sequence[Newcomer]) -> Query:
        rows, history, events = ([getattr(one, name) for one in group] for name in ("row", "history", "event"))
        given = {"rows": json.dumps(rows), "history": json.dumps(history), "events": json.dumps(events)}
        return self._text, {**self._values, **given}


def _statement(machine: Machine, insert: str) -> sql.Composed:
    return sql.SQL(
        "with given as (select * from jsonb_populate_recordset(null::{table}, %(rows)s::jsonb)), made as ({insert}),"
        " history as (insert into state_transitions ({history}) select {history}"
        "  from jsonb_populate_recordset(null::state_transitions, %(history)s::jsonb)"
        "  where entity_id in (select {key}::text from made)),"
        " event as (insert into outbox_events ({event}) select {event}"
        "  from jsonb_populate_recordset(null::outbox_events, %(events)s::jsonb)"
        "  where entity_id in (select {key}::text from made))"
        " select * from made"
    ).format(
        table=sql.Identifier(*machine.table.split(".")),
        insert=sql.SQL(insert),  # written in code, never from input
        key=sql.Identifier(machine.key),
        history=sql.SQL(_HISTORY),
        event=sql.SQL(COLUMNS),
    )
