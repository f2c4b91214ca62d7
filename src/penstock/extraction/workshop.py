"""What the stages work with: the desk, whoever looks into a PDF first, and the providers, made when first needed."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.extraction.desk import EtlDesk
from penstock.extraction.ports import OCRProvider, PostProcessor, Tools
from penstock.extraction.providers import Shelf
from penstock.pdf import Inspection


class Inspector(Protocol):
    """Looks into a PDF before anything else opens it."""

    async def inspect(self, path: Path) -> Inspection: ...


@dataclass(frozen=True, slots=True)
class Shelves:
    """What is installed."""

    providers: Shelf[OCRProvider]
    processors: Shelf[PostProcessor]


class Workshop:
    """One per worker process."""

    def __init__(self, desk: EtlDesk, inspector: Inspector, tools: Tools, shelves: Shelves, owner: str) -> None:
        self.desk = desk
        self.inspector = inspector
        self.owner = owner
        self._tools = tools
        self._shelves = shelves
        self._providers: dict[str, OCRProvider] = {}
        self._processors: dict[str, PostProcessor] = {}

    def provider(self, name: str) -> OCRProvider:
        if name not in self._providers:
            self._providers[name] = self._shelves.providers.make(name, self._tools)
        return self._providers[name]

    def processor(self, mode: str) -> PostProcessor:
        if mode not in self._processors:
            self._processors[mode] = self._shelves.processors.make(mode, self._tools)
        return self._processors[mode]

    def modes(self) -> frozenset[str]:
        """What a rule may name as its `postprocess_mode`."""
        return frozenset(self._shelves.processors.installed())

    async def close(self) -> None:
        for provider in self._providers.values():
            await provider.close()
