"""A rule tried on a short text, or on pages that were read: the same post-processors as for a task, nothing stored.
What a model costs is the merchant's."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.extraction.ports import Extract, PostProcessor, Rule, Subject
from penstock.extraction.result_check import check_result
from penstock.extraction.rule_sandbox import RuleSandbox
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.pdf.pages.markdown import document_markdown
from penstock.pdf.pages.model import Page

MAX_LETTERS = 20_000


@dataclass(frozen=True, slots=True)
class Bench:
    """What a rule is tried with."""

    processors: Mapping[str, PostProcessor]
    sandbox: RuleSandbox


class _Held:
    """As if a first stage had read it. A text without pages is made one where it is looked at."""

    markdown_key = ""
    provider_task_id = ""
    metadata: Mapping[str, Any] = {}

    def __init__(self, text: str, pages: Sequence[Page] = ()) -> None:
        self._text, self._pages = text, pages
        self.page_count = max(1, len(pages))

    async def markdown(self) -> str:
        return self._text

    async def pages(self) -> AsyncIterator[Page]:
        for page in self._pages:
            yield page


async def _unheard(done: int, total: int) -> None: ...


async def try_rule(rule: Rule, text: str, bench: Bench, *, merchant_id: str = "") -> Extract:
    """ETL_TEXT_TOO_LONG; ETL_PROVIDER_UNKNOWN; whatever the post-processor says. The data fits the schema."""
    if len(text) > MAX_LETTERS:
        raise PenstockError(error_codes.ETL_TEXT_TOO_LONG, letters=len(text), limit=MAX_LETTERS)
    extract = await _tried(rule, _Held(text.encode(errors="replace").decode()), bench, merchant_id)
    return replace(extract, places={})  # those are no places on a document


async def try_on_pages(rule: Rule, pages: Sequence[Page], bench: Bench, *, merchant_id: str = "") -> Extract:
    """As the document itself would have given."""
    return await _tried(rule, _Held(document_markdown(pages), pages), bench, merchant_id)


async def _tried(rule: Rule, held: _Held, bench: Bench, merchant_id: str) -> Extract:
    processor = bench.processors.get(rule.postprocess_mode)
    if processor is None:
        raise PenstockError(
            error_codes.ETL_PROVIDER_UNKNOWN, name=rule.postprocess_mode, installed=sorted(bench.processors)
        )
    extract = await processor.process(rule, held, Subject(0, merchant_id), _unheard)
    await check_result(bench.sandbox, rule, extract, merchant_id)
    return extract
