"""What every kind of MinerU server is asked: take a document, say how far it is, hand over the result.

An adapter knows one contract and nothing of retries: it raises what `refusals` names, and the provider decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.extraction.ports import Document

Ticket = Mapping[str, str]  # how a task is found again; remembered, so it holds no secret of ours

_SUFFIXES = {
    "application/pdf": ".pdf",
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/tiff": ".tiff",
    "image/webp": ".webp",
}


@dataclass(frozen=True, slots=True)
class Part:
    """Pages `first` to `last` of a document, from 1; all of it when both are 0."""

    first: int = 0
    last: int = 0

    @property
    def is_whole(self) -> bool:
        return self.last == 0

    @property
    def label(self) -> str:
        return "all" if self.is_whole else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be read. People's file names stay here: the service gets one made of the content's hash."""

    document: Document
    part: Part

    @property
    def filename(self) -> str:
        return f"document-{self.document.sha256[:16]}{_SUFFIXES.get(self.document.media_type, '.pdf')}"

    @property
    def data_id(self) -> str:
        return f"{self.document.sha256[:40]}.{self.part.label}"


@dataclass(frozen=True, slots=True)
class Look:
    """How far a task is. `link` is where the result is, when the service says so."""

    is_done: bool
    pages_done: int = 0
    pages: int = 0
    link: str = ""
    awaits_file: bool = False


class Family(Protocol):
    """One contract."""

    name: str
    version: str

    async def submit(self, order: Order) -> Ticket: ...

    async def deliver(self, order: Order, ticket: Ticket) -> None:
        """Send the bytes, where that is a step of its own. May be done again."""

    async def look(self, order: Order, ticket: Ticket) -> Look: ...

    async def fetch(self, order: Order, ticket: Ticket, look: Look, into: Path) -> None: ...
