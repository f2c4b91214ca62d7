"""A rule tried on a short text: the same post-processors as for a task, nothing stored. What a model costs is the
merchant's."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

from penstock.extraction.markdown_page import page_of_markdown
from penstock.extraction.ports import Extract, PostProcessor, Rule, Subject
from penstock.extraction.schemas import errors_of
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.pdf.pages.model import Page

MAX_LETTERS = 20_000


class _ShortText:
    """As if a first stage had read it. Its places are no places on a document."""

    markdown_key = ""
    provider_task_id = ""
    page_count = 1
    metadata: Mapping[str, Any] = {}

    def __init__(self, text: str) -> None:
        self._text = text

    async def markdown(self) -> str:
        return self._text

    async def pages(self) -> AsyncIterator[Page]:
        yield page_of_markdown(self._text)


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
    extract = await processor.process(rule, _ShortText(text), Subject(0, merchant_id), _unheard)
    if (
        rule.json_schema is not None
        and extract.data is not None
        and (errors := errors_of(rule.json_schema, extract.data))
    ):
        raise PenstockError(error_codes.ETL_RESULT_INVALID, errors=errors)
    return replace(extract, places={})
