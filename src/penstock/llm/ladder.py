"""From a question to an answer that fits its schema, by whatever means one model has.

First the endpoint enforces the schema; where it cannot, it promises JSON, and we show the schema and check; where it
cannot do that either, we ask nicely and check. What an endpoint refuses is remembered for the life of the process. An
answer that does not fit is shown its errors once. Invariant: only a value that fits leaves.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import structlog

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.llm import prompts
from penstock.llm.calling import Caller
from penstock.llm.faults import CallFailed
from penstock.llm.judge import Judge, Wanted
from penstock.llm.orders import Ledger, Order
from penstock.llm.ports import Ask
from penstock.llm.settings import LlmSettings
from penstock.llm.tokens import PER_MESSAGE, estimate_tokens
from penstock.llm.verdicts import Verdict

log = structlog.get_logger(__name__)

_FORMAT_WORDS = ("response_format", "json_schema", "json_object", "json mode", "structured output", "guided", "schema")
_UNSUPPORTED = ("unsupported", "not support", "only the default", "unknown", "unrecognized")
_MOST_LESSONS = 6


class Rung(IntEnum):
    """How JSON is asked for; lower is better."""

    SCHEMA = 0  # the endpoint enforces the schema
    OBJECT = 1  # the endpoint promises JSON
    PLAIN = 2  # nobody promises anything


@dataclass(slots=True)
class Habits:
    """What one model of the endpoint has been found to refuse."""

    lowest: Rung = Rung.SCHEMA
    schemas: dict[str, Rung] = field(default_factory=dict)  # a single schema it will not take, by digest
    output_name: str = "max_tokens"
    has_temperature: bool = True

    def copy(self) -> "Habits":
        return replace(self, schemas=dict(self.schemas))

    def rung(self, target: Wanted) -> Rung:
        first = Rung.SCHEMA if target.is_sendable else Rung.PLAIN
        return max(first, self.lowest, self.schemas.get(target.digest, Rung.SCHEMA))

    def learn(self, complaint: str, target: Wanted | None) -> bool:
        """Whether there is another way to ask."""
        if self.output_name in complaint and "max_completion_tokens" in complaint and self.output_name == "max_tokens":
            self.output_name = "max_completion_tokens"
            return True
        if self.has_temperature and "temperature" in complaint and any(word in complaint for word in _UNSUPPORTED):
            self.has_temperature = False
            return True
        if target is None or not any(word in complaint for word in _FORMAT_WORDS):
            return False
        rung = self.rung(target)
        if rung is Rung.PLAIN:
            return False
        if "invalid schema" in complaint or "invalid_json_schema" in complaint:
            self.schemas[target.digest] = Rung(rung + 1)
        else:
            self.lowest = Rung(rung + 1)
        return True


class Ladder:
    """One per process."""

    def __init__(self, caller: Caller, judge: Judge, settings: LlmSettings) -> None:
        self._caller = caller
        self._judge = judge
        self._settings = settings
        self._habits: dict[str, Habits] = {}

    async def climb(self, ask: Ask, model: str, target: Wanted | None, ledger: Ledger) -> tuple[Any, int]:
        """The value and how many repairs it took."""
        talk = _Talk(ask, model, target, self._habits.get(model, Habits()).copy())
        has_been_empty = False
        while True:
            answer, verdict = await self._answer(talk, ledger)
            if verdict.code is None:
                return verdict.value, talk.repairs
            if verdict.code is error_codes.LLM_EMPTY and not has_been_empty:
                has_been_empty = True
            elif verdict.code is error_codes.LLM_OUTPUT_INVALID and not talk.repairs:
                talk.repair(answer, verdict)
            else:
                raise verdict.error(model)

    async def _answer(self, talk: "_Talk", ledger: Ledger) -> tuple[str, Verdict]:
        """Asked in another way as long as the endpoint objects to the way and not to the question."""
        for _ in range(_MOST_LESSONS):
            try:
                completion, verdict = await self._caller.call(talk.order(self._settings, self._judge), ledger)
            except CallFailed as failed:
                if not failed.complaint or not talk.habits.learn(failed.complaint, talk.target):
                    raise failed.error() from None
                log.info("llm.asked_otherwise", model=talk.model, lowest=talk.habits.lowest.name.lower())
            else:
                self._habits[talk.model] = talk.habits  # only now: it did help
                return completion.content, verdict
        raise PenstockError(error_codes.LLM_REQUEST_REFUSED, model=talk.model, reason="NO_WAY_TO_ASK")


class _Talk:
    """One question to one model, and what has been said."""

    def __init__(self, ask: Ask, model: str, target: Wanted | None, habits: Habits) -> None:
        self.ask = ask
        self.model = model
        self.target = target
        self.habits = habits
        self.repairs = 0
        self._more: prompts.Messages = []

    def repair(self, answer: str, verdict: Verdict) -> None:
        self.repairs += 1
        self._more = prompts.repair(answer, verdict.errors)

    def order(self, settings: LlmSettings, judge: Judge) -> Order:
        rung = self.habits.rung(self.target) if self.target else Rung.PLAIN
        schema = self.target.shown if self.target else None
        said = prompts.messages(self.ask.prompt, schema, show_schema=rung is not Rung.SCHEMA) + self._more
        most = self.ask.max_output_tokens or settings.max_output_tokens
        body: dict[str, Any] = {"model": self.model, "messages": said, self.habits.output_name: most}
        if self.habits.has_temperature and settings.temperature is not None:
            body["temperature"] = settings.temperature
        if self.target is not None and rung is not Rung.PLAIN:
            body["response_format"] = _format(self.target, rung, self.ask.prompt.name)
        tokens = sum(PER_MESSAGE + estimate_tokens(message["content"]) for message in said)
        if rung is Rung.SCHEMA and self.target is not None:
            tokens += estimate_tokens(str(body["response_format"]))
        return Order(self.ask, self.model, body, tokens, most, lambda completion: judge.judge(completion, self.target))


def _format(target: Wanted, rung: Rung, name: str) -> Mapping[str, Any]:
    if rung is Rung.OBJECT:
        return {"type": "json_object"}
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "answer"
    schema = target.strict or target.shown
    return {"type": "json_schema", "json_schema": {"name": plain, "strict": bool(target.strict), "schema": schema}}
