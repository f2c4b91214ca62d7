"""What the two stages ask of whoever reads documents and of whoever makes JSON of them.

Providers are found by name: `local` and `mineru` here, others by the entry points `penstock.ocr_providers` and
`penstock.post_processors`, each a callable that takes `Tools` and returns the provider. A provider raises
`PenstockError`: a retryable code is tried again, any other ends the task. It is cancelled when its lease is lost.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from penstock.kernel.clock import Clock
from penstock.llm.ports import Example, LanguageModel
from penstock.pdf.pages.model import Box, Page

CountPages = Callable[[Path, str], Awaitable[int]]


@dataclass(frozen=True, slots=True)
class Document:
    """The file to be read. `path` is a private copy, there as long as the call lasts."""

    path: Path
    filename: str
    media_type: str
    size: int
    sha256: str
    page_count: int | None = None  # of a PDF, counted when it was looked into
    tenant: str = ""  # the merchant whose file it is: all merchants share the sandbox fairly


class Notebook(Protocol):
    """Where a provider writes down what it has, so that a killed attempt is gone on with and not begun again."""

    @property
    def remembered(self) -> Mapping[str, Any]:
        """What an earlier attempt of this reading asked to remember: the id of a task elsewhere, say."""

    async def remember(self, **facts: Any) -> None: ...

    async def pages_done(self) -> frozenset[int]:
        """Numbers of the pages that an earlier attempt stored."""

    async def add_page(self, page: Page) -> None:
        """Store a page; once for each number."""

    async def add_image(self, name: str, data: bytes) -> str:
        """Store a picture; returns its key in the object store."""

    async def add_images(self, pictures: Mapping[str, bytes]) -> Mapping[str, str]:
        """Store several pictures by name, which costs less than one by one; returns their keys."""

    async def progress(self, done: int, total: int) -> None:
        """Pages read so far. Also a sign of life: a stage that gives none for long is ended."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a provider makes of a document. Without `markdown` it is written from the pages in the notebook."""

    page_count: int
    provider_task_id: str
    markdown: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)  # version, seconds, whatever helps to trace


class OCRProvider(Protocol):
    """Reads documents."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    async def read(self, document: Document, notebook: Notebook) -> Reading: ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """What is wanted of a document; the exact version that a task runs with."""

    rule_id: int
    version: int
    name: str
    postprocess_mode: str
    json_schema: Mapping[str, Any] | None = None
    system_prompt: str | None = None
    postprocess_strategy: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    examples: Sequence[Example] = field(default_factory=list)  # texts and what is right for them; each fits the schema
    description: str = ""
    is_system: bool = False


class Manuscript(Protocol):
    """What the first stage stored."""

    markdown_key: str
    provider_task_id: str
    page_count: int
    metadata: Mapping[str, Any]

    async def markdown(self) -> str: ...

    def pages(self) -> AsyncIterator[Page]:
        """In order, one at a time."""


@dataclass(frozen=True, slots=True)
class Subject:
    """On whose behalf; for budgets and the account of calls."""

    task_id: int
    merchant_id: str
    generation: int = 1  # counts the user's retries: each is asked anew


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was found."""

    page: int
    box: Box
    spans: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class Extract:
    """What a post-processor made. `places` are by JSON pointer (RFC 6901) into `data`."""

    data: Any
    places: Mapping[str, Sequence[Place]] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)  # strategy, chunks, models, tokens, cost
    is_checked: bool = False  # `data` was checked against the rule's schema in the sandbox, and fits


class Progress(Protocol):
    async def __call__(self, done: int, total: int) -> None: ...


class PostProcessor(Protocol):
    """Makes JSON of what was read. With a schema, `data` fits it: the stage checks once more and refuses otherwise."""

    name: str

    async def process(self, rule: Rule, manuscript: Manuscript, subject: Subject, progress: Progress) -> Extract: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """What providers and post-processors are made with; each takes what it needs."""

    clock: Clock
    count_pages: CountPages  # of a file of a media type, read in the sandbox
    model: LanguageModel | None = None


class Memo(Protocol):
    """Answers that were paid for, so that an attempt after a crash does not ask again. Losing one costs only money."""

    async def get(self, key: str) -> Any | None: ...

    async def put(self, key: str, value: Any) -> None: ...
