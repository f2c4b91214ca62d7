"""The text of real catalogues with places, images and lines, against one process that only extracts the text.

Ratios are speeds: 0.5 means half as fast. Ours is end to end, through the sandbox with its answer decoded; once on
all places of the pool, as the product reads, and once with one call at a time. Needs PENSTOCK_TEST_DATA; without it a
book of plain text is read alone.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.corpus import pdfs_in
from bench.pdf import _bare, _book
from penstock.kernel.sandbox import Limits, Sandbox, SandboxSettings
from penstock.pdf import Examiner, PdfSettings, pdf_sandbox
from penstock.pdf.pages.reading import PageDraft

_ROUNDS = 5
_SLICE = 8  # pages of a call: few enough that both places are busy to the end
_READ = "penstock.pdf.pages.reading:read_pages"


def run() -> dict[str, Any]:
    """Median of five rounds, ours and the bare loop in turn, so that a busy moment touches both."""
    return asyncio.run(_run())


async def _run() -> dict[str, Any]:
    settings = PdfSettings()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        sets = {"book": [_book(Path(name))]}
        if data := os.environ.get("PENSTOCK_TEST_DATA"):
            sets["catalogues"] = pdfs_in(Path(data) / "catalogues")
        async with pdf_sandbox(settings, SandboxSettings()) as sandbox:
            measured = {what: await _measure(sandbox, settings, paths) for what, paths in sets.items()}
    ratios, figures = {}, {}
    for what, (pages, pooled, alone, bare) in measured.items():
        ratios[f"{what}_vs_bare_text_extraction"] = round(bare / pooled, 2)
        ratios[f"{what}_one_call_at_a_time"] = round(bare / alone, 2)
        figures[f"{what}_pages"] = pages
        figures[f"{what}_pages_per_second"] = round(pages / pooled)
        figures[f"{what}_bare_pages_per_second"] = round(pages / bare)
    return {"name": "pdf_text", "ratios": ratios, "figures": figures}


async def _measure(sandbox: Sandbox, settings: PdfSettings, paths: list[Path]) -> tuple[int, float, float, float]:
    examiner = Examiner(sandbox, settings)
    counted = [(path, (await examiner.inspect(path)).page_count) for path in paths]
    pages = sum(count for _, count in counted)
    await _read(sandbox, counted, sandbox.settings.workers)  # modules loaded, files in memory
    rounds = []
    for _ in range(_ROUNDS):
        pooled = await _read(sandbox, counted, sandbox.settings.workers)
        bare = await asyncio.to_thread(_bare, paths)
        rounds.append((pooled, await _read(sandbox, counted, 1), bare))
    pooled, alone, bare = (statistics.median(column) for column in zip(*rounds, strict=True))
    return pages, pooled, alone, bare


async def _read(sandbox: Sandbox, counted: list[tuple[Path, int]], at_once: int) -> float:
    """Seconds for all pages of all files."""
    limits = Limits(memory=sandbox.limits.memory, result_bytes=sandbox.limits.result_bytes)
    slices = iter([
        (path, first, min(first + _SLICE - 1, count))
        for path, count in counted
        for first in range(1, count + 1, _SLICE)
    ])  # fmt: skip

    async def work() -> None:
        for path, first, last in slices:
            at = first
            while at <= last:
                outcome = await sandbox.call(_READ, at, last, {}, files=[path], limits=limits, returns=list[PageDraft])
                if not outcome.value:
                    raise RuntimeError(f"{path.name}: {outcome.ending} {outcome.error} {outcome.message}")
                at += len(outcome.value)

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return time.perf_counter() - begun


if __name__ == "__main__":
    from penstock.kernel import json

    sys.stdout.write(json.dumps(run()) + "\n")
