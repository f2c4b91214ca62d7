"""A language model for tests of strategies: it reads rows out of the markdown that it is given, as one would hope."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from penstock.extraction.ports import Subject
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.llm.ports import Ask, Reply, Usage
from penstock.pdf.pages.model import Page

SUBJECT = Subject(7, "m1")
_ROW = re.compile(r"^\|\s*(C\d+)\s*\|\s*([^|]*?)\s*\|\s*(\d+)\s*\|$", re.MULTILINE)
_NUMBER = re.compile(r"Invoice (INV-\d+)")


class ReadingModel:
    """`limit`: letters beyond which a text is too long; `answer`: instead of reading."""

    def __init__(self, limit: int | None = None, answer: Callable[[Ask], Any] | None = None) -> None:
        self.asked: list[Ask] = []
        self.at_once = self.most_at_once = 0
        self._limit = limit
        self._answer = answer

    async def ask(self, ask: Ask) -> Reply:
        self.asked.append(ask)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0)
            if self._limit is not None and len(ask.prompt.data) > self._limit:
                raise PenstockError(error_codes.LLM_CONTEXT_TOO_LONG)
            value = self._answer(ask) if self._answer else self.read(ask)
        finally:
            self.at_once -= 1
        return Reply(value, "reader-1", Usage(100, 10, cost_micro_usd=5, calls=1))

    @staticmethod
    def read(ask: Ask) -> Any:
        text = ask.prompt.data
        if ask.schema is None:
            return "\n".join([*(f"Invoice {each}" for each in _NUMBER.findall(text)), *_rows_of(text)])
        number = _NUMBER.search(text)
        lines = [{"code": code, "name": name or None, "qty": int(qty)} for code, name, qty in _ROW.findall(text)]
        return {"number": number[1] if number else None, "lines": lines}


def _rows_of(text: str) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in _ROW.findall(text)]


class Text:
    """What was read, without a first stage."""

    markdown_key = "k"
    provider_task_id = "p"

    def __init__(self, markdown: str, pages: Sequence[Page] = ()) -> None:
        self._markdown = markdown
        self._pages = pages
        self.page_count = len(pages)
        self.metadata: dict[str, Any] = {}

    async def markdown(self) -> str:
        return self._markdown

    async def pages(self) -> AsyncIterator[Page]:
        for page in self._pages:
            yield page


class Told:
    """Progress as it was reported."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []

    async def __call__(self, done: int, total: int) -> None:
        self.steps.append((done, total))


class DictMemo:
    """Remembers as long as the test lasts."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def get(self, key: str) -> Any | None:
        return self.kept.get(key)

    async def put(self, key: str, value: Any) -> None:
        self.kept[key] = value
