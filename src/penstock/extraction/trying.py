"""A rule tried on a short text, or on pages that were read: the same post-processors as for a task, nothing stored.
What a model costs is the merchant's."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.extraction.markdown_page import page_of_markdown
from penstock.extraction.ports import Extract, PostProcessor, Rule, Subject
from penstock.extraction.schemas import errors_of
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.pdf.pages.markdown import document_markdown
from penstock.pdf.pages.model import Page

MAX_LETTERS = 20_000


class _Held:
    """As if a first stage had read it."""

    markdown_key = ""
    provider_task_id = ""
    metadata: Mapping[str, Any] = {}

    def __init__(self, text: str, pages: Sequence[Page]) -> None:
        self._text, self._pages = text, pages
        self.page_count = len(pages)

    async def markdown(self) -> str:
        return self._text

    async def pages(self) -> AsyncIterator[Page]:
        for page in self._pages:
            yield page


async def _unheard(done: int, total: int) -> None: ...


async def try_rule(
    rule: Rule, text: str, processors: Mapping[str, PostProcessor], *, merchant_id: str = ""
) -> Extract:  # fmt: skip
    """ETL_TEXT_TOO_LONG; ETL_PROVIDER_UNKNOWN; whatever the post-processor says. The data fits the schema."""
    if len(text) > MAX_LETTERS:
        raise PenstockError(error_codes.ETL_TEXT_TOO_LONG, letters=len(text), limit=MAX_LETTERS)
    processor = processors.get(rule.postprocess_mode)
    if processor is None:
        raise PenstockError(
            error_codes.ETL_PROVIDER_UNKNOWN, name=rule.postprocess_mode, installed=sorted(processors)
        )  # fmt: skip
    extract = await _tried(rule, _Held(text, [page_of_markdown(text)]), processor, merchant_id)
    return replace(extract, places={})  # those are no places on a document


async def try_on_pages(
    rule: Rule, pages: Sequence[Page], processor: PostProcessor, *, merchant_id: str = ""
) -> Extract:  # fmt: skip
    """As the document itself would have given."""
    return await _tried(rule, _Held(document_markdown(pages), pages), processor, merchant_id)


async def _tried(rule: Rule, held: _Held, processor: PostProcessor, merchant_id: str) -> Extract:
    extract = await processor.process(rule, held, Subject(0, merchant_id), _unheard)
    if (
        rule.json_schema is not None
        and extract.data is not None
        and (errors := errors_of(rule.json_schema, extract.data))
    ):
        raise PenstockError(error_codes.ETL_RESULT_INVALID, errors=errors)
    return extract
