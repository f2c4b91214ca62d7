"""State machines as data: what may follow what, who may do it, and what is announced.

Each domain declares one `Machine` literal in its `states.py`. These functions write a status, and nothing else
does (an architecture test reads the SQL of the whole package to prove it):

  `enter`  records the first state of a row that the domain's store has just inserted; `enter_many` of many
           rows at once, each with its own row of history, announced in batches
  `move`   changes the state: guarded UPDATE … WHERE status = expected, the row in `state_transitions` and the
           outbox event, in one statement, so that they stand or fall together
  `moving` several moves in one trip to the server
  `move_many`  the same for many rows of one whole, in one statement: those still in the expected state move, each
           with its row in `state_transitions`; the events are about the whole and tell of up to 50 rows each

A move that is not declared is a fault of ours and raises TRANSITION_UNDECLARED or TRANSITION_DENIED. A move that
lost a race (the row is gone, no longer in the expected state, or a guarded column has changed) raises STATE_CHANGED.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from psycopg import sql

from penstock.kernel import error_codes, json
from penstock.kernel.db import NOW, Tx, fetch_all, fetch_one
from penstock.kernel.errors import PenstockError
from penstock.kernel.events import Event
from penstock.kernel.outbox import COLUMNS, announce, row_of

Query = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Transition:
    """One arrow. `by` names the parts of the system that may take it; `notice` is what people are shown."""

    source: StrEnum | None  # None: the entity begins here
    target: StrEnum
    by: frozenset[str]
    notice: str | None = None


def arrow(
    source: StrEnum | Iterable[StrEnum] | None, target: StrEnum, by: str, notice: str | None = None
) -> list[Transition]:
    """Arrows from one or several states; `by` is a comma-separated list of parts."""
    sources: Iterable[StrEnum | None] = [source] if source is None or isinstance(source, StrEnum) else list(source)
    parts = frozenset(part.strip() for part in by.split(","))
    return [Transition(each, target, parts, notice) for each in sources]


@dataclass(frozen=True)
class Machine:
    """The states of one entity and where they are kept."""

    entity: str
    table: str
    key: str
    states: type[StrEnum]
    arrows: list[list[Transition]]
    column: str = "status"
    merchant_column: str | None = None
    terminal: frozenset[StrEnum] = frozenset()
    _by_pair: Mapping[tuple[StrEnum | None, StrEnum], Transition] = field(init=False, repr=False, compare=False)
    _texts: dict[Any, str] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        pairs: dict[tuple[StrEnum | None, StrEnum], Transition] = {}
        for transition in self.transitions:
            pair = (transition.source, transition.target)
            if pair in pairs:
                raise ValueError(f"{self.entity}: {pair} is declared twice")
            if transition.source in self.terminal:
                raise ValueError(f"{self.entity}: {transition.source} is terminal, yet an arrow leaves it")
            pairs[pair] = transition
        object.__setattr__(self, "_by_pair", pairs)
        if unreachable := set(self.states) - {target for _, target in pairs}:
            raise ValueError(f"{self.entity}: no arrow leads to {sorted(unreachable)}")

    @property
    def transitions(self) -> list[Transition]:
        return [transition for group in self.arrows for transition in group]

    def find(self, source: StrEnum | None, target: StrEnum) -> Transition | None:
        return self._by_pair.get((source, target))

    def text_of(self, shape: Any, write: Callable[[], sql.Composed]) -> str:
        """The text of a statement, put together once for all steps of one shape."""
        if shape not in self._texts:
            self._texts[shape] = write().as_string(None)
        return self._texts[shape]

    def declared(self, source: StrEnum | None, target: StrEnum, by: str) -> Transition:
        transition = self.find(source, target)
        facts = {"entity": self.entity, "from": source, "to": target}
        if transition is None:
            raise PenstockError(error_codes.TRANSITION_UNDECLARED, **facts)
        if by not in transition.by:
            raise PenstockError(error_codes.TRANSITION_DENIED, **facts, by=by)
        return transition


@dataclass(frozen=True, slots=True)
class Step:
    """One change of state that somebody wants to make."""

    entity_id: str
    source: StrEnum | None
    target: StrEnum
    by: str  # the part of the system that acts
    trigger: str
    operator: str | None = None  # the person behind it, if any
    merchant_id: str | None = None  # for `enter`, and machines without a merchant column
    payload: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)  # other columns, set in the same UPDATE; NOW is a value
    topics: tuple[str, ...] = ()
    order_key: str = ""
    guards: Mapping[str, Any] = field(default_factory=dict)  # other columns that must have these values, for `move`


MOST_IN_AN_EVENT = 50


@dataclass(frozen=True, slots=True)
class Batch:
    """One change of state that somebody wants to make to many rows of one whole (the pages of a job, say)."""

    entity_ids: Sequence[Any]
    source: StrEnum
    target: StrEnum
    by: str
    trigger: str
    event: Event  # about the whole; its payload is completed with the rows that moved
    listed_as: str  # under this name
    facts: Mapping[str, str] = field(default_factory=dict)  # what is told of a row besides its status: name → column
    changes: Mapping[str, Any] = field(default_factory=dict)  # other columns, the same for all
    operator: str | None = None


@dataclass(frozen=True, slots=True)
class Crowd:
    """Rows of one owner that begin in one state together; `members` is what the batch events say of each, by id."""

    target: StrEnum
    by: str
    trigger: str
    owner_type: str
    owner_id: str
    members: Mapping[str, Mapping[str, Any]]
    merchant_id: str | None = None
    topics: tuple[str, ...] = ()
    order_key: str = ""


async def enter(tx: Tx, machine: Machine, step: Step) -> None:
    """Record the first state of a row that this transaction has inserted."""
    transition = machine.declared(None, step.target, step.by)
    await tx.execute(
        "insert into state_transitions (entity_type, entity_id, from_status, to_status, trigger, operator)"
        " values (%s, %s, null, %s, %s, %s)",
        (machine.entity, step.entity_id, str(step.target), step.trigger, step.operator or step.by),
    )
    await announce(tx, event_of(machine, transition, step))


def enter_query(machine: Machine, step: Step, insert: str, values: Mapping[str, Any]) -> Query:
    """The domain's own `insert … returning …` and the record of the first state: one statement, for a GroupCommit."""
    transition = machine.declared(None, step.target, step.by)
    text = machine.text_of(insert, lambda: _enter_statement(insert))
    return text, {**values, **_facts(machine, step, event_of(machine, transition, step))}


async def enter_many(tx: Tx, machine: Machine, crowd: Crowd) -> None:
    """As `enter` for each of the crowd, in a number of statements that does not grow with it.

    The events are of the owner: `pages.blank` with `{"pages": [...]}`, at most MOST_IN_AN_EVENT in each.
    """
    transition = machine.declared(None, crowd.target, crowd.by)
    await tx.execute(
        "insert into state_transitions (entity_type, entity_id, from_status, to_status, trigger, operator)"
        " select %s, id, null, %s, %s, %s from unnest(%s::text[]) with ordinality as given(id, n) order by n",
        (machine.entity, str(crowd.target), crowd.trigger, crowd.by, list(crowd.members)),
    )
    told = list(crowd.members.values())
    batches = [told[start : start + MOST_IN_AN_EVENT] for start in range(0, len(told), MOST_IN_AN_EVENT)]
    await announce(tx, *(_crowd_event(machine, transition, crowd, batch) for batch in batches))


def _crowd_event(machine: Machine, transition: Transition, crowd: Crowd, batch: list[Mapping[str, Any]]) -> Event:
    plural = f"{machine.entity}s"
    return Event(
        event_type=f"{plural}.{transition.target.lower()}",
        entity_type=crowd.owner_type,
        entity_id=crowd.owner_id,
        payload={"from": None, "to": transition.target, "trigger": crowd.trigger, plural: batch},
        merchant_id=crowd.merchant_id,
        notice=transition.notice,
        topics=crowd.topics,
        order_key=crowd.order_key,
    )


async def move(tx: Tx, machine: Machine, step: Step) -> dict[str, Any]:
    """Make the change or raise; returns the row as it now is."""
    moved = await fetch_one(tx, *move_query(machine, step))
    if moved is None:
        raise lost_race(machine, step)
    return moved


def move_query(machine: Machine, step: Step) -> Query:
    """What `move` runs, for a GroupCommit; no row: `lost_race`."""
    transition = machine.declared(step.source, step.target, step.by)
    shape = (tuple((name, value is NOW) for name, value in step.changes.items()), tuple(step.guards))
    text = machine.text_of(shape, lambda: _move_statement(machine, step))
    values = {"key": step.entity_id, "current": str(step.source), "next": str(step.target)}
    values |= _facts(machine, step, event_of(machine, transition, step))
    values |= {f"if_{name}": value for name, value in step.guards.items()}
    return text, values | _changed(step.changes)


@asynccontextmanager
async def moving(tx: Tx, *moves: tuple[Machine, Step]) -> AsyncIterator[None]:
    """All these moves, and what the block executes after them, in one trip to the server; a lost race raises.

    The block must not wait for results.
    """
    async with tx.pipeline():
        asked = [await tx.execute(*move_query(machine, step)) for machine, step in moves]
        yield
    for cursor, (machine, step) in zip(asked, moves, strict=True):
        if await cursor.fetchone() is None:
            raise lost_race(machine, step)


def lost_race(machine: Machine, step: Step) -> PenstockError:
    return PenstockError(
        error_codes.STATE_CHANGED, entity=machine.entity, id=step.entity_id, expected=step.source, to=step.target
    )


async def move_many(tx: Tx, machine: Machine, batch: Batch) -> list[dict[str, Any]]:
    """Move the rows that are in the expected state; returns them as they now are. The others are left alone."""
    transition = machine.declared(batch.source, batch.target, batch.by)
    if not batch.entity_ids:
        return []
    payload = {"from": batch.source, "to": batch.target, "trigger": batch.trigger, **batch.event.payload}
    event = replace(batch.event, payload=payload, notice=transition.notice)
    return await fetch_all(tx, _move_many_statement(machine, batch), _move_many_values(machine, batch, event))


def event_of(machine: Machine, transition: Transition, step: Step) -> Event:
    payload = {"from": transition.source, "to": transition.target, "trigger": step.trigger, **step.payload}
    return Event(
        event_type=f"{machine.entity}.{transition.target.lower()}",
        entity_type=machine.entity,
        entity_id=step.entity_id,
        payload=payload,
        merchant_id=step.merchant_id,
        notice=transition.notice,
        topics=step.topics,
        order_key=step.order_key,
    )


_HISTORY = sql.SQL(
    "insert into state_transitions (entity_type, entity_id, from_status, to_status, trigger, operator)"
    " select %(entity)s, %(id)s, %(source)s, %(target)s, %(trigger)s, %(operator)s"
)
_ANNOUNCEMENT = sql.SQL(
    "insert into outbox_events ({columns}) select %(event_type)s, %(entity)s, %(id)s, {merchant}, %(order_key)s,"
    " %(slot)s, %(notice)s, %(topics)s, %(payload)s::jsonb, %(trace)s"
)


def _enter_statement(insert: str) -> sql.Composed:
    return sql.SQL(
        "with made as ({insert}), history as ({history} from made), event as ({event} from made) select * from made"
    ).format(
        insert=sql.SQL(insert),  # written in code, never from input
        history=_HISTORY,
        event=_ANNOUNCEMENT.format(columns=sql.SQL(COLUMNS), merchant=sql.SQL("%(merchant_id)s::text")),
    )


def _move_statement(machine: Machine, step: Step) -> sql.Composed:
    sets = [sql.SQL("{} = %(next)s").format(sql.Identifier(machine.column)), *_sets(step.changes)]
    guards = [
        sql.SQL(" and {} = {}").format(sql.Identifier(name), sql.Placeholder(f"if_{name}")) for name in step.guards
    ]
    merchant: sql.Composable = sql.SQL("%(merchant_id)s::text")
    if machine.merchant_column:
        merchant = sql.SQL("moved.{}").format(sql.Identifier(machine.merchant_column))
    return sql.SQL(
        "with moved as (update {table} set {sets} where {key} = %(key)s and {column} = %(current)s{guards}"
        " returning *), history as ({history} from moved), event as ({event} from moved) select * from moved"
    ).format(
        table=sql.Identifier(*machine.table.split(".")),
        sets=sql.SQL(", ").join(sets),
        guards=sql.Composed(guards),
        key=sql.Identifier(machine.key),
        column=sql.Identifier(machine.column),
        history=_HISTORY,
        event=_ANNOUNCEMENT.format(columns=sql.SQL(COLUMNS), merchant=merchant),
    )


def _facts(machine: Machine, step: Step, event: Event) -> dict[str, Any]:
    """What the history and the outbox are told."""
    event_type, _, _, merchant_id, order_key, slot, notice, topics, payload, trace = row_of(event)
    return {
        "entity": machine.entity, "id": step.entity_id, "target": str(step.target), "trigger": step.trigger,
        "source": None if step.source is None else str(step.source), "operator": step.operator or step.by,
        "event_type": event_type, "merchant_id": merchant_id, "order_key": order_key, "slot": slot, "notice": notice,
        "topics": topics, "payload": payload, "trace": trace,
    }  # fmt: skip


def _move_many_statement(machine: Machine, batch: Batch) -> sql.Composed:
    """Rows are locked in the order of their keys, so that two batches never wait for each other in a circle."""
    sets = [sql.SQL("{} = %(target)s").format(sql.Identifier(machine.column)), *_sets(batch.changes)]
    facts = [
        sql.SQL("{}, part.{}").format(sql.Literal(name), sql.Identifier(column)) for name, column in batch.facts.items()
    ]
    return sql.SQL(
        "with chosen as (select {key} from {table} where {key} = any(%(keys)s) and {column} = %(source)s"
        "  order by {key} for update),"
        " moved as (update {table} t set {sets} from chosen where t.{key} = chosen.{key} returning t.*),"
        " history as (insert into state_transitions (entity_type, entity_id, from_status, to_status, trigger, operator)"
        "  select %(entity)s, moved.{key}::text, %(source)s, %(target)s, %(trigger)s, %(operator)s from moved"
        "  order by moved.{key}),"
        " part as (select moved.*, (row_number() over (order by moved.{key}) - 1) / %(most)s as part_no from moved),"
        " event as (insert into outbox_events ({columns})"
        "  select %(event_type)s, %(about)s, %(about_id)s, %(merchant_id)s, %(order_key)s, %(slot)s, %(notice)s,"
        "  %(topics)s, %(payload)s::jsonb || jsonb_build_object(%(listed_as)s::text,"
        "   jsonb_agg(jsonb_build_object({facts}) order by part.{key})), %(trace)s"
        "  from part group by part_no order by part_no)"
        " select * from moved order by {key}"
    ).format(
        table=sql.Identifier(*machine.table.split(".")),
        sets=sql.SQL(", ").join(sets),
        key=sql.Identifier(machine.key),
        column=sql.Identifier(machine.column),
        columns=sql.SQL(COLUMNS),
        facts=sql.SQL(", ").join([*facts, sql.SQL("'status', %(target)s::text")]),
    )


def _move_many_values(machine: Machine, batch: Batch, event: Event) -> dict[str, Any]:
    event_type, about, about_id, merchant_id, order_key, slot, notice, topics, payload, trace = row_of(event)
    values: dict[str, Any] = {
        "keys": list(batch.entity_ids), "source": str(batch.source), "target": str(batch.target),
        "entity": machine.entity, "trigger": batch.trigger, "operator": batch.operator or batch.by,
        "event_type": event_type, "about": about, "about_id": about_id, "merchant_id": merchant_id,
        "order_key": order_key, "slot": slot, "notice": notice, "topics": topics, "payload": payload, "trace": trace,
        "listed_as": batch.listed_as, "most": MOST_IN_AN_EVENT,
    }  # fmt: skip
    return values | _changed(batch.changes)


def _sets(changes: Mapping[str, Any]) -> list[sql.Composable]:
    return [
        sql.SQL("{} = {}").format(
            sql.Identifier(name), sql.SQL("statement_timestamp()") if value is NOW else sql.Placeholder(f"set_{name}")
        )
        for name, value in changes.items()
    ]


def _changed(changes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"set_{name}": json.dumps(value) if isinstance(value, dict) else value
        for name, value in changes.items()
        if value is not NOW
    }


def diagram(machine: Machine) -> str:
    """The machine as a Mermaid state diagram, for the docs."""
    lines = ["stateDiagram-v2"]
    for transition in machine.transitions:
        source = transition.source or "[*]"
        notice = f" / {transition.notice}" if transition.notice else ""
        lines.append(f"    {source} --> {transition.target}: {', '.join(sorted(transition.by))}{notice}")
    lines += [f"    {state} --> [*]" for state in machine.states if state in machine.terminal]
    return "\n".join(lines)
