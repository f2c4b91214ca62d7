"""A document from file to result, here and now: no task, no queue, no servers; the stages' own steps on a folder.

Invariant: what comes out is what a task would have given for the same file and rule.
"""

from dataclasses import dataclass, replace
from typing import Any

from penstock.extraction.folder import Folder, Manifest, StoredManuscript, StoreNotebook
from penstock.extraction.ports import Document, Extract, OCRProvider, PostProcessor, Progress, Rule, Subject
from penstock.extraction.result_check import SKIP, check_result
from penstock.extraction.rule_sandbox import RuleSandbox
from penstock.extraction.stages import inspect_first, seal, told_places
from penstock.extraction.workshop import Inspector

_TOKEN = 1  # nobody else writes into the folder


@dataclass(frozen=True, slots=True)
class ReadHere:
    """A document that is read."""

    folder: Folder
    manifest: Manifest

    @property
    def manuscript(self) -> StoredManuscript:
        return StoredManuscript(self.folder, self.manifest)


async def read_here(
    document: Document, folder: Folder, inspector: Inspector, provider: OCRProvider, tell: Progress
) -> ReadHere:
    """Into an empty folder. Whatever speaks against the file is raised before anything opens it."""
    count = await inspect_first(inspector, document.media_type, document.path)
    notebook = StoreNotebook(folder, _TOKEN, tell)
    reading = await provider.read(replace(document, page_count=count), notebook)
    manifest = await seal(folder, notebook, provider, reading)
    return ReadHere(folder, manifest)


async def make_here(
    read: ReadHere, rule: Rule, maker: tuple[PostProcessor, RuleSandbox], merchant_id: str, tell: Progress
) -> Extract:
    """ETL_RESULT_INVALID, whoever made it, when it does not fit the rule's schema."""
    processor, sandbox = maker
    extract = await processor.process(rule, read.manuscript, Subject(0, merchant_id), tell)
    await check_result(sandbox, rule, extract, merchant_id)
    return extract


def told(read: ReadHere, rule: Rule, extract: Extract) -> dict[str, Any]:
    """The result, with the names that a task's result has; always with the same keys."""
    manifest = read.manifest
    is_made = rule.postprocess_mode != SKIP
    return {
        "page_count": manifest.page_count,
        "provider": manifest.provider,
        "provider_task_id": manifest.provider_task_id,
        "rule": {
            "name": rule.name, "rule_id": rule.rule_id or None, "version": rule.version or None,
            "postprocess_mode": rule.postprocess_mode,
        },
        "metadata": {**manifest.metadata, **({"postprocess": dict(extract.metadata)} if is_made else {})},
        "warnings": manifest.told_warnings(),
        "data": extract.data if is_made else None,
        "provenance": told_places(extract.places) if is_made else {},
    }  # fmt: skip
