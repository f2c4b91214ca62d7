"""A language model's adapter beside a stand-in, and what it wrote; `python -m tests.support.asking` asks once."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from penstock.kernel.breaker import Breaker
from penstock.kernel.confined_calls import DirectCalls
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.rategate import RateGate
from penstock.kernel.redis import Keys, Redis, connect
from penstock.llm import Ask, LlmSettings, Prompt
from penstock.llm.adapter import Guards, Llm
from penstock.llm.judge import Judge
from tests.standins.openai_like import KEY, OpenAiLike, Says, openai_like

SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "string"}, "total": {"type": "number"}, "note": {"type": "string"}},
    "required": ["number", "total"],
}
GOOD = {"number": "A-1", "total": 12.5}
PRICE = "small=150000/600000,large=2500000/10000000"


def question(data: str = "Invoice A-1, total 12.50", **more: Any) -> Ask:
    given = {"schema": SCHEMA, "merchant_id": "m1", "max_output_tokens": 100, **more}
    examples = given.pop("examples", ())
    return Ask(
        Prompt("extract-json", "1", "Find the invoice's number and total.", data, examples), "task", "7", **given
    )


def settings(standin: OpenAiLike, /, **more: Any) -> LlmSettings:
    quick = {"qpm": 600_000, "retry_pause": "0.01", "model": "small", "prices": PRICE, "patience": "5", "timeout": "20"}
    return LlmSettings(**{"base_url": standin.base_url, "api_key": KEY, **quick, **more})


def adapter(given: LlmSettings, database: Database, redis: Redis, keys: Keys) -> Llm:
    """A process's worth of objects."""
    return Llm(given, database, Guards(RateGate(redis, keys), Breaker(redis, keys)), Judge(DirectCalls()))


@dataclass
class Here:
    llm: Llm
    model: OpenAiLike
    database: Database

    async def ask(self, data: str = "Invoice A-1, total 12.50", **more: Any) -> Any:
        return await self.llm.ask(question(data, **more))

    async def calls(self) -> list[dict[str, Any]]:
        return await self._rows("select * from llm_call order by call_id")

    async def budgets(self) -> Mapping[str, tuple[int, int]]:
        """Spent and reserved by scope."""
        rows = await self._rows("select scope, spent, reserved from budgets")
        return {row["scope"]: (row["spent"], row["reserved"]) for row in rows}

    async def _rows(self, query: str) -> list[dict[str, Any]]:
        async with self.database.transaction() as tx:
            return await fetch_all(tx, query)


@asynccontextmanager
async def asking(
    database: Database, redis: Redis, keys: Keys, *script: Says, standin: Mapping[str, Any] | None = None, **more: Any
) -> AsyncIterator[Here]:
    async with openai_like(*script, **(standin or {})) as model:
        llm = adapter(settings(model, **more), database, redis, keys)
        try:
            yield Here(llm, model, database)
        finally:
            await llm.close()


async def _ask_once(database_url: str, redis_url: str, base_url: str) -> None:
    database, redis = Database(database_url, name="asking"), connect(redis_url)
    await database.open()
    given = LlmSettings(base_url=base_url, api_key=KEY, model="small", prices=PRICE)
    await adapter(given, database, redis, Keys("test")).ask(question())


if __name__ == "__main__":
    asyncio.run(_ask_once(*sys.argv[1:]))
