"""Where rules are checked and applied: everything that a merchant wrote is interpreted in the sandbox, under a budget.

Never call this inside an open transaction: a call may wait for its turn. Raises ETL_RULE_TOO_COSTLY for a rule that
takes too much, SANDBOX_UNAVAILABLE when this machine cannot say, and what the function itself refuses.
"""

import json as plain_json
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.extraction.ports import Manuscript, Place, Progress, Rule
from penstock.extraction.rule_calls import Answers, Batch, Made, RuleCheck
from penstock.kernel import json
from penstock.kernel.confined_calls import ConfinedCalls, too_costly
from penstock.pdf.pages.model import Page

_CALLS = "penstock.extraction.rule_calls"
_BATCH_PAGES = 64
_BATCH_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """What a document says by a rule; it fits the rule's schema."""

    data: Any
    places: Mapping[str, Sequence[Place]] = field(default_factory=dict)
    places_found: int = 0
    conflicts: Sequence[Mapping[str, Any]] = ()


class RuleSandbox:
    """One per process."""

    def __init__(self, calls: ConfinedCalls) -> None:
        self._calls = calls

    async def check(
        self, content: Mapping[str, Any], modes: Collection[str], tenant: str, before: Mapping[str, Any] | None = None
    ) -> RuleCheck:
        """The problems of a rule that is to be written; `before` is what it says now."""
        said = None if before is None else _as_given(before)
        function = f"{_CALLS}:check_rule"
        return await self._calls.call(
            function, _as_given(content), sorted(modes), said, tenant=tenant, returns=RuleCheck
        )  # fmt: skip

    async def match(self, rule: Rule, manuscript: Manuscript, tenant: str, progress: Progress) -> Found:
        """The mode `rules`. ETL_RESULT_INVALID names each path."""
        schema, options = json.dump_bytes(rule.json_schema), json.dump_bytes(rule.options)

        async def next_step(state: bytes, batch: bytes) -> Made:
            function = f"{_CALLS}:match_pages"
            return await self._calls.call(function, schema, options, state, batch, tenant=tenant, returns=Made)

        return await _over_pages(next_step, _batches(manuscript), max(1, manuscript.page_count), progress)

    async def finish(
        self, schema: Mapping[str, Any], answers: Sequence[Any], manuscript: Manuscript, tenant: str, *, is_whole: bool
    ) -> Found:  # fmt: skip
        """A model's answers made one, checked, and found on the pages. LLM_OUTPUT_INVALID names each path."""
        given = msgspec.msgpack.encode(Answers(json.dump_bytes(schema), json.dump_bytes(answers), is_whole))

        async def next_step(state: bytes, batch: bytes) -> Made:
            function = f"{_CALLS}:finish_answers"
            return await self._calls.call(function, given, state, batch, tenant=tenant, returns=Made)

        return await _over_pages(next_step, _batches(manuscript, needs_text=False), 1, _untold)

    async def errors_of(self, schema: Mapping[str, Any], value: Any, tenant: str) -> list[dict[str, str]]:
        """What is wrong with a value by a rule's schema; for values that another made."""
        said, given = json.dump_bytes(schema), json.dumps_storable(value).encode()
        return await self._calls.call(
            f"{_CALLS}:check_value", said, given, tenant=tenant, returns=list[dict[str, str]]
        )  # fmt: skip


async def _untold(done: int, total: int) -> None: ...


def _as_given(content: Mapping[str, Any]) -> bytes:
    """As it was given, even what cannot be stored: numbers that are none, halves of letters."""
    try:
        return plain_json.dumps(content).encode()
    except RecursionError:
        raise too_costly("NESTING") from None


async def _over_pages(
    next_step: Callable[[bytes, bytes], Any], batches: AsyncIterator[Batch], total: int, progress: Progress
) -> Found:  # fmt: skip
    """One call for each batch; most documents have one."""
    made, done = Made(), 0
    async for batch in batches:
        made = await next_step(made.state, msgspec.msgpack.encode(batch))
        done += max(1, len(batch.pages))
        await progress(min(done, total), total)
    return Found(json.loads(made.data), made.places, made.places_found, json.loads(made.conflicts))


async def _batches(manuscript: Manuscript, *, needs_text: bool = True) -> AsyncIterator[Batch]:
    """The pages, some at a time; the last says so. Without pages the markdown, if that is needed, once."""
    waiting: list[Page] = []
    size = 0
    async for page in manuscript.pages():
        if waiting and (len(waiting) >= _BATCH_PAGES or size >= _BATCH_BYTES):
            yield Batch(waiting, is_last=False)
            waiting, size = [], 0
        waiting.append(page)
        size += _size_of(page)
    if waiting or not needs_text:
        yield Batch(waiting)
    else:
        yield Batch(markdown=await manuscript.markdown())


def _size_of(page: Page) -> int:
    """About how many bytes it is encoded."""
    return 100 * (len(page.spans) + sum(len(table.cells) for table in page.tables))
