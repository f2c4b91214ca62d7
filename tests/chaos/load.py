"""Writers that keep moving things on and remember every move that was acknowledged."""

import asyncio
import random
import threading
from contextlib import suppress
from enum import StrEnum

import psycopg
from psycopg.rows import dict_row

from penstock.kernel import statemachine
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.statemachine import Machine, Step, arrow


class Thing(StrEnum):
    ON = "ON"
    OFF = "OFF"


THING = Machine(
    entity="thing",
    table="chaos_things",
    key="id",
    merchant_column="merchant_id",
    states=Thing,
    arrows=[
        arrow(None, Thing.ON, "test"),
        arrow(Thing.ON, Thing.OFF, "test", "job_failed"),
        arrow(Thing.OFF, Thing.ON, "test", "job_completed"),
    ],
)


class Writer(threading.Thread):
    """Runs its own loop in a thread: each move is one transaction; only acknowledged ones count."""

    def __init__(self, url: str, seed: int, entities: list[str], moves_per_second: float = 60) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[str, int] = dict.fromkeys(entities, 0)
        self._url = url
        self._random = random.Random(seed)
        self._pace = 1 / moves_per_second
        self._done = threading.Event()
        self.failure: BaseException | None = None

    def finish(self) -> None:
        self._done.set()
        self.join(30)
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as failure:  # noqa: BLE001  handed to the test by finish()
            self.failure = failure

    async def _work(self) -> None:
        database = Database(self._url, name="writer", size=2, wait_seconds=1)
        await database.open()
        while not self._done.is_set():
            entity = self._random.choice(list(self.acknowledged))
            with suppress(PenstockError, psycopg.Error):  # not acknowledged: it may or may not have happened
                self.acknowledged[entity] = await self._move(database, entity)
            await asyncio.sleep(self._pace)
        await database.close()

    async def _move(self, database: Database, entity: str) -> int:
        """The next step of an entity, whatever became of the one before."""
        async with database.transaction() as tx:
            cursor = tx.cursor(row_factory=dict_row)
            await cursor.execute("select step, status from chaos_things where id = %s for update", (entity,))
            row = await cursor.fetchone()
            if row is None:
                await tx.execute("insert into chaos_things (id, step) values (%s, 1)", (entity,))
                first = Step(entity, None, Thing.ON, by="test", trigger="t", merchant_id="m1", payload={"step": 1})
                await statemachine.enter(tx, THING, first)
                return 1
            step = row["step"] + 1
            source = Thing(row["status"])
            target = Thing.OFF if source is Thing.ON else Thing.ON
            await statemachine.move(
                tx,
                THING,
                Step(entity, source, target, by="test", trigger="t", payload={"step": step}, changes={"step": step}),
            )
            return int(step)
