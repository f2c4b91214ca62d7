"""The smallest provider and the smallest post-processor: what "Write a provider" in docs/ shows."""

from penstock.extraction.ports import Document, Extract, Manuscript, Notebook, Progress, Reading, Rule, Subject, Tools
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.pdf.pages.model import Block, BlockKind, Box, Origin, Page, Span

_TOP = Box(0.1, 0.05, 0.9, 0.1)


class PageNumbers:
    """Reads nothing but how many pages there are."""

    name = "example"
    version = "1.0"

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def read(self, document: Document, notebook: Notebook) -> Reading:
        if document.media_type != "application/pdf":
            raise PenstockError(error_codes.OCR_REFUSED, reason="only PDFs")  # not retryable: ends the task
        total = document.page_count or await self._tools.count_pages(document.path, document.media_type)
        done = await notebook.pages_done()  # an earlier attempt may have been killed
        for number in range(1, total + 1):
            if number not in done:
                await notebook.add_page(_page(number))
            await notebook.progress(number, total)
        return Reading(page_count=total, provider_task_id=f"example-{document.sha256[:8]}")

    async def close(self) -> None: ...


def _page(number: int) -> Page:
    text = f"Page {number}"
    return Page(
        number,
        width=595,
        height=842,
        spans=[Span("s1", text, _TOP, Origin.PROVIDER)],
        blocks=[Block(BlockKind.HEADING, _TOP, text, level=1, spans=["s1"])],
    )


class WordCount:
    """Makes JSON of a document without looking at the rule."""

    name = "word-count"

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def process(self, rule: Rule, manuscript: Manuscript, subject: Subject, progress: Progress) -> Extract:
        words = len((await manuscript.markdown()).split())
        await progress(1, 1)
        return Extract({"words": words})
