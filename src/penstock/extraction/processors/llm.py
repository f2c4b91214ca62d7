"""The mode `llm`: a language model fills in the rule's schema.

direct-json asks once; chunked-extract asks for each chunk by a relaxed schema and merges the answers by the schema's
keys; chunked-summarize shortens each chunk, then asks once. The rule says which, else the size of the document does.
A text that is too long for the model is worked on in chunks, a chunk that is too long in smaller ones. Answers are
made one, checked and looked for on the pages in the sandbox. Invariant: `data` fits the rule's schema, or the failure
names each path.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.extraction.chunks import chunks
from penstock.extraction.ports import Extract, Manuscript, Memo, Progress, Rule, Subject
from penstock.extraction.processors import prompting
from penstock.extraction.processors.asking import Asking, ForgetfulMemo, Steps
from penstock.extraction.relaxing import relaxed
from penstock.extraction.rule_sandbox import Found, RuleSandbox
from penstock.extraction.settings import EtlSettings
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.llm.ports import LanguageModel

DIRECT, SUMMARIZE, EXTRACT = "direct-json", "chunked-summarize", "chunked-extract"
_TOO_LONG = frozenset({error_codes.LLM_CONTEXT_TOO_LONG, error_codes.LLM_TRUNCATED})
_SMALLEST_CHUNK = 500
_LIFE_SECONDS = 20.0
_ROUNDS = 3  # of summaries of summaries

Memos = Callable[[Subject], Memo]


def _forget(_subject: Subject) -> Memo:
    return ForgetfulMemo()


@dataclass(slots=True)
class _Work:
    """One document in hand."""

    rule: Rule
    schema: dict[str, Any]
    text: str
    asking: Asking
    progress: Progress
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Answers:
    """What the model said: once for the whole document, or of each part of it."""

    parts: list[Any]
    is_whole: bool = True


class LlmProcessor:
    """`at_once`: chunks of one task that are asked about at the same time."""

    name = "llm"

    def __init__(
        self,
        model: LanguageModel,
        sandbox: RuleSandbox,
        settings: EtlSettings,
        memos: Memos = _forget,
        at_once: int = 4,
    ) -> None:
        self._model = model
        self._sandbox = sandbox
        self._settings = settings
        self._memos = memos
        self._at_once = at_once

    async def process(self, rule: Rule, manuscript: Manuscript, subject: Subject, progress: Progress) -> Extract:
        if rule.json_schema is None:
            raise PenstockError(
                error_codes.ETL_RULE_INVALID, problems=[{"path": "/json_schema", "message": "is missing"}]
            )
        text = await manuscript.markdown()
        is_trial = not subject.task_id  # of a trial nothing is stored
        steps = Steps(progress, min(_LIFE_SECONDS, self._settings.task_timeout.total_seconds() / 4))
        memo = ForgetfulMemo() if is_trial else self._memos(subject)
        asking = Asking(self._model, self._sandbox, subject, memo, steps)
        work = _Work(rule, dict(rule.json_schema), text, asking, steps, {"prompt_version": prompting.VERSION})
        answers = await self._by_strategy(work) if text.strip() else _Answers([{}])
        async with steps.while_waiting():
            found = await self._finished(work, answers, manuscript, subject)
        if found.conflicts:
            work.facts["conflicts"] = found.conflicts
        return Extract(found.data, found.places, {**work.facts, **asking.bill.told()}, is_checked=True)

    async def _finished(
        self, work: _Work, answers: _Answers, manuscript: Manuscript, subject: Subject
    ) -> Found:  # fmt: skip
        try:
            return await self._sandbox.finish(
                work.schema, answers.parts, manuscript, subject.merchant_id, is_whole=answers.is_whole
            )
        except PenstockError as failure:
            if failure.code is not error_codes.LLM_OUTPUT_INVALID:
                raise
            if not work.text.strip():  # no model was asked
                said = [{"path": "", "message": "the document has no text"}]
                raise PenstockError(error_codes.ETL_RESULT_INVALID, errors=said) from None
            await work.asking.forget()
            raise

    async def _by_strategy(self, work: _Work) -> _Answers:
        strategy = work.rule.postprocess_strategy or self._by_size(work.text)
        work.facts["strategy"] = strategy
        if strategy == DIRECT:
            try:
                return await self._direct(work)
            except PenstockError as failure:
                if failure.code not in _TOO_LONG:
                    raise
                is_output = failure.code is error_codes.LLM_TRUNCATED
                strategy = EXTRACT if is_output else self._settings.postprocess_large_strategy
                work.facts |= {"strategy": strategy, "instead_of": DIRECT, "because": failure.code.code}
        return await (self._summaries(work) if strategy == SUMMARIZE else self._extracts(work))

    def _by_size(self, text: str) -> str:
        is_large = len(text) > self._settings.postprocess_chunk_threshold_chars
        return self._settings.postprocess_large_strategy if is_large else DIRECT

    async def _direct(self, work: _Work) -> _Answers:
        await work.progress(0, 1)
        data = await work.asking.ask(prompting.whole(work.rule, work.text), work.schema)
        await work.progress(1, 1)
        return _Answers([data])

    async def _extracts(self, work: _Work) -> _Answers:
        schema = relaxed(work.schema)

        async def of_one(text: str) -> Any:
            return await work.asking.ask(prompting.part(work.rule, text), schema)

        async def extract(text: str) -> list[Any]:
            return await self._or_smaller(text, of_one)

        parts = await self._of_chunks(work, work.text, extract)
        return _Answers([part for some in parts for part in some], is_whole=False)

    async def _summaries(self, work: _Work) -> _Answers:
        async def of_one(text: str) -> Any:
            return await work.asking.ask(prompting.summary(work.rule, text))

        async def summarise(text: str) -> list[Any]:
            return await self._or_smaller(text, of_one)

        text, limit = work.text, self._settings.postprocess_chunk_threshold_chars
        for _ in range(_ROUNDS):
            parts = await self._of_chunks(work, text, summarise)
            text, before = "\n\n".join(str(part) for some in parts for part in some), len(text)
            if len(text) <= limit or len(text) > 0.9 * before:
                break
        return _Answers([await work.asking.ask(prompting.from_summaries(work.rule, text), work.schema)])

    async def _of_chunks(
        self, work: _Work, text: str, of_one: Callable[[str], Awaitable[list[Any]]]
    ) -> list[list[Any]]:
        settings = self._settings
        size, most = settings.postprocess_chunk_size_chars, settings.postprocess_max_chunks
        parts = await asyncio.to_thread(chunks, text, size, most)
        work.facts["chunks"] = work.facts.get("chunks", 0) + len(parts)
        return await in_turns([part.text for part in parts], of_one, self._at_once, work.progress)

    async def _or_smaller(self, text: str, of_one: Callable[[str], Awaitable[Any]]) -> list[Any]:
        """The answer for a text, or those for its halves where the model cannot take it whole."""
        try:
            return [await of_one(text)]
        except PenstockError as failure:
            if failure.code not in _TOO_LONG or len(text) < 2 * _SMALLEST_CHUNK:
                raise
            smaller = chunks(text, max(_SMALLEST_CHUNK, len(text) // 2))
            if len(smaller) < 2:
                raise
        found: list[Any] = []
        for part in smaller:
            if len(part.text) >= len(text):
                raise PenstockError(error_codes.LLM_CONTEXT_TOO_LONG, letters=len(text))
            found += await self._or_smaller(part.text, of_one)
        return found


async def in_turns(
    texts: Sequence[str], of_one: Callable[[str], Awaitable[list[Any]]], at_once: int, progress: Progress
) -> list[list[Any]]:
    """Answers in the order of the texts. After a failure nothing new is begun; what was begun, and is paid for, ends
    and is remembered. The first failure by time is raised."""
    answers: dict[int, list[Any]] = {}
    failures: list[PenstockError] = []
    waiting = iter(enumerate(texts))

    async def turn() -> None:
        for index, text in waiting:
            try:
                answers[index] = await of_one(text)
            except PenstockError as failure:
                failures.append(failure)
            if failures:
                return
            await progress(len(answers), len(texts))

    await progress(0, len(texts))
    async with asyncio.TaskGroup() as group:
        for _ in range(min(at_once, len(texts))):
            group.create_task(turn())
    if failures:
        raise failures[0]
    return [answers[index] for index in range(len(texts))]
