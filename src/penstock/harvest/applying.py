"""A source that comes over the network is applied: the checks of a file, and those for callers from afar."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.harvest.desk import HarvestDesk, check
from penstock.harvest.registry import store
from penstock.harvest.registry.apply import Applied, Diff, apply, preview
from penstock.harvest.registry.document import SourceDocument, try_source
from penstock.harvest.registry.remote import address_problems, credential_problems
from penstock.harvest.registry.source import RegisteredSource
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.yaml_text import Problem


async def read(content: bytes, code: str) -> SourceDocument:
    """SOURCE_FILE_INVALID with all problems; one of them is a document of another source than `code`."""
    document, problems = await asyncio.to_thread(try_source, content, code)  # a large one takes a while
    if document is not None and document.source != code:
        problems = [_misplaced(document, code)]
    if problems or document is None:
        raise PenstockError(error_codes.SOURCE_FILE_INVALID, problems=[each.as_dict() for each in problems])
    return document


async def apply_from_afar(desk: HarvestDesk, document: SourceDocument, by: str, *, is_dry_run: bool) -> Applied | Diff:
    """SPEC_INVALID with everything that is wrong. A dry run checks the same and writes nothing."""
    document.mark_remote()
    found = [] if desk.settings.allow_private else await address_problems(document)
    async with desk.database.transaction() as tx:
        before = await store.find(tx, document.source)
        found += credential_problems(document, None if before is None else before.document)

        def all_checks(source: RegisteredSource) -> Sequence[Mapping[str, Any]]:
            return [*found, *check(source)]

        if is_dry_run:
            return await preview(tx, document, check=all_checks)
        return await apply(tx, document, by, check=all_checks, clock=desk.clock)


def _misplaced(document: SourceDocument, code: str) -> Problem:
    line = int(document.origins.get("source", f"{code}:1").rpartition(":")[2])
    return Problem(
        code, line, 1, "source", "source.code", f"文档描述的是 {document.source}，而地址是 {code}",
        f"the document is about {document.source}, the address says {code}",
    )  # fmt: skip
