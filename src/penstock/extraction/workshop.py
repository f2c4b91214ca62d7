"""What the stages work with: the desk, whoever looks into a PDF first, and the providers, made when first needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock.extraction import rule_content, rules
from penstock.extraction.desk import EtlDesk
from penstock.extraction.folder import Folder, Manifest
from penstock.extraction.ports import OCRProvider, PostProcessor, Rule, Tools
from penstock.extraction.providers import Shelf
from penstock.extraction.rule_sandbox import RuleSandbox
from penstock.extraction.rules import Terms
from penstock.llm.examples import Examples
from penstock.llm.ports import Example
from penstock.pdf import Inspection

_MOST_SEALED = 32


class Inspector(Protocol):
    """Looks into a PDF before anything else opens it."""

    async def inspect(self, path: Path, *, tenant: str) -> Inspection: ...


@dataclass(frozen=True, slots=True)
class Shelves:
    """What is installed."""

    providers: Shelf[OCRProvider]
    processors: Shelf[PostProcessor]


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a workshop is set up with."""

    inspector: Inspector
    tools: Tools
    shelves: Shelves
    examples: Examples
    sandbox: RuleSandbox


class Workshop:
    """One per worker process."""

    def __init__(self, desk: EtlDesk, equipment: Equipment, owner: str) -> None:
        self.desk = desk
        self.inspector = equipment.inspector
        self.owner = owner
        self._tools = equipment.tools
        self._shelves = equipment.shelves
        self._examples = equipment.examples
        self.sandbox = equipment.sandbox
        self._providers: dict[str, OCRProvider] = {}
        self._processors: dict[str, PostProcessor] = {}
        self._sealed: dict[str, Manifest] = {}

    def provider(self, name: str) -> OCRProvider:
        if name not in self._providers:
            self._providers[name] = self._shelves.providers.make(name, self._tools)
        return self._providers[name]

    def processor(self, mode: str) -> PostProcessor:
        if mode not in self._processors:
            self._processors[mode] = self._shelves.processors.make(mode, self._tools)
        return self._processors[mode]

    def terms(self) -> Terms:
        """What rules are held to."""
        modes = frozenset(self._shelves.processors.installed())
        settings = self.desk.settings
        return Terms(self.sandbox, modes, settings.global_rule_id, settings.rules_per_merchant)

    async def rule_of(self, kept: Mapping[str, Any]) -> Rule:
        """The rule of a task, whole: its examples are those of its version, mostly remembered."""
        if not rule_content.has_examples_elsewhere(kept):
            return rule_content.restored(kept)
        rule_id, version = kept["rule_id"], kept["version"]

        async def load() -> Sequence[Example]:
            async with self.desk.database.statement() as tx:
                return await rules.examples_of(tx, rule_id, version)

        found = await self._examples.of(f"etl-rule-{rule_id}", str(version), load)
        return rule_content.restored(kept, found)

    def keep(self, folder: Folder, manifest: Manifest) -> None:
        """What was just sealed here, for the stage that follows; only the newest are kept."""
        if len(self._sealed) >= _MOST_SEALED:
            del self._sealed[next(iter(self._sealed))]
        self._sealed[folder.root] = manifest

    def kept(self, folder: Folder) -> Manifest | None:
        """Once: whoever comes again looks into the store."""
        return self._sealed.pop(folder.root, None)

    async def close(self) -> None:
        for provider in self._providers.values():
            await provider.close()
