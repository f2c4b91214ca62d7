"""Questions to the model on behalf of one task: each answer is remembered, counted, and asked for once.

An answer is remembered by what was asked: the instructions, the schema and the text. After a crash the same question
finds it again. A memory that is away costs money and nothing else.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog

from penstock.extraction.ports import Memo, Progress, Subject
from penstock.extraction.rule_sandbox import RuleSandbox
from penstock.kernel import json
from penstock.kernel.errors import PenstockError
from penstock.llm.ports import Ask, LanguageModel, Prompt, Reply

log = structlog.get_logger(__name__)


class ForgetfulMemo:
    """Remembers nothing: for trying a rule, and where nothing is kept."""

    async def get(self, key: str) -> Any | None:  # noqa: ARG002  the port asks for it
        return None

    async def put(self, key: str, value: Any) -> None: ...


@dataclass(slots=True)
class Bill:
    """What the answers of one task took. Remembered ones took nothing this time."""

    models: dict[str, int] = field(default_factory=dict)
    asked: int = 0
    remembered: int = 0
    repairs: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost_micro_usd: int = 0
    calls: int = 0
    is_estimated: bool = False

    def add(self, reply: Reply) -> None:
        usage = reply.usage
        self.models[reply.model] = self.models.get(reply.model, 0) + 1
        self.asked += 1
        self.repairs += reply.repairs
        self.prompt_tokens += usage.prompt_tokens
        self.output_tokens += usage.output_tokens
        self.cost_micro_usd += usage.cost_micro_usd
        self.calls += usage.calls
        self.is_estimated = self.is_estimated or usage.is_estimated

    def told(self) -> dict[str, Any]:
        return {
            "models": self.models,
            "asked": self.asked,
            "remembered": self.remembered,
            "repairs": self.repairs,
            "usage": {
                "prompt_tokens": self.prompt_tokens,
                "output_tokens": self.output_tokens,
                "cost_micro_usd": self.cost_micro_usd,
                "calls": self.calls,
                "is_estimated": self.is_estimated,
            },
        }


class Steps:
    """Progress, told again and again while a call is under way: whoever waits for a model, which has limits of its own,
    does not hang. Between calls nobody tells anything."""

    def __init__(self, tell: Progress, every: float) -> None:
        self._tell = tell
        self._every = every
        self._last = (0, 1)

    async def __call__(self, done: int, total: int) -> None:
        self._last = (done, total)
        await self._tell(done, total)

    @asynccontextmanager
    async def while_waiting(self) -> AsyncIterator[None]:
        telling = asyncio.create_task(self._keep_telling())
        try:
            yield
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)

    async def _keep_telling(self) -> None:
        while True:
            await asyncio.sleep(self._every)
            await self._tell(*self._last)


class Asking:
    """For one task."""

    def __init__(
        self, model: LanguageModel, sandbox: RuleSandbox, subject: Subject, memo: Memo, steps: Steps
    ) -> None:  # fmt: skip
        self._model = model
        self._sandbox = sandbox
        self._subject = subject
        self._memo = memo
        self._steps = steps
        self._keys: list[str] = []
        self.bill = Bill()

    async def ask(self, prompt: Prompt, schema: Mapping[str, Any] | None = None) -> Any:
        key = key_of(prompt, schema)
        self._keys.append(key)
        kept = await self._kept(key)
        if kept is not None and await self._fits(schema, kept["value"]):
            self.bill.remembered += 1
            return kept["value"]
        subject, kind = self._subject, "etl_task" if self._subject.task_id else "etl_trial"
        async with self._steps.while_waiting():
            reply = await self._model.ask(Ask(prompt, kind, str(subject.task_id), subject.merchant_id, schema))
        self.bill.add(reply)
        await self._keep(key, {"value": reply.value, "model": reply.model})
        return reply.value

    async def _fits(self, schema: Mapping[str, Any] | None, value: Any) -> bool:
        return schema is None or not await self._sandbox.errors_of(schema, value, self._subject.merchant_id)

    async def forget(self) -> None:
        """Answers that are of no use together: whoever tries again shall get others."""
        for key in self._keys:
            await self._keep(key, {})

    async def _kept(self, key: str) -> Any | None:
        try:
            kept = await self._memo.get(key)
        except PenstockError as failure:
            log.warning("answer.not_remembered", task_id=self._subject.task_id, code=failure.code.code)
            return None
        return kept if isinstance(kept, Mapping) and "value" in kept else None

    async def _keep(self, key: str, value: Any) -> None:
        try:
            await self._memo.put(key, value)
        except PenstockError as failure:
            log.warning("answer.not_kept", task_id=self._subject.task_id, code=failure.code.code)


def key_of(prompt: Prompt, schema: Mapping[str, Any] | None) -> str:
    asked = [prompt.name, prompt.version, prompt.instructions, prompt.data, list(prompt.examples), schema]
    return hashlib.sha256(json.dump_bytes(asked)).hexdigest()
