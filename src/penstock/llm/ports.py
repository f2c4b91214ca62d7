"""What the rest of Penstock asks of a language model, and how it answers.

One call is a value in, a value out: the text that fits the schema, or a `PenstockError` with one of the LLM_ codes.
Nobody else knows endpoints, keys, budgets or retries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict


class Example(TypedDict):
    """What may be given, and the value that is right for it."""

    text: str
    result: Any


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template by name and version, filled. `data` is a stranger's text: delimited, never instructions."""

    name: str
    version: str
    instructions: str  # ours and the rule's
    data: str
    examples: Sequence[tuple[str, str]] = ()  # what was given, what was answered


@dataclass(frozen=True, slots=True)
class Ask:
    """One question. Without a schema the answer is text."""

    prompt: Prompt
    subject_type: str  # etl_task, page …
    subject_id: str
    merchant_id: str | None
    schema: Mapping[str, Any] | None = None
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    prompt_tokens: int = 0
    output_tokens: int = 0
    is_estimated: bool = False
    cost_micro_usd: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """`value` is parsed and fits the schema; without a schema it is the text."""

    value: Any
    model: str
    usage: Usage
    repairs: int = 0
    trace: Sequence[Mapping[str, Any]] = field(
        default_factory=tuple
    )  # one entry per call: model, outcome, tokens, cost


class LanguageModel(Protocol):
    async def ask(self, ask: Ask) -> Reply: ...
