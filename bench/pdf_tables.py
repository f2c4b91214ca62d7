"""Tables of the public set with ground truth, ours and those of other programs that are installed, in one run.

The material and its scorer are not part of the repository: without them (PENSTOCK_TEST_DATA) there is nothing to
measure. Ours is read and found by the functions that run in the sandbox, in this process, one core. `alone` is the
finder without the reading; `unruled` is the same pages with every ruling taken away, which tells how words alone do.
"""

import collections
import contextlib
import importlib.util
import io
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pypdfium2

from penstock.pdf.pages.model import Table
from penstock.pdf.pages.reading import PageDraft, read_pages
from penstock.pdf.pages.tables import find_tables

PEERS = {
    "camelot": ("camelot_network", "camelot"),
    "pdfplumber": ("pdfplumber",),
    "tablers": ("tablers", "tablers_or_network"),
}
Grids = dict[int, list[list[list[str | None]]]]


def run() -> dict[str, Any]:
    folder = material()
    if folder is None:
        return {"figures": {"material": "not here (PENSTOCK_TEST_DATA)"}}
    scorer = load_scorer(folder)
    paths = [path for path in sorted(folder.glob("*.pdf")) if path.with_name(f"{path.stem}-str.xml").exists()]
    pages = sum(_page_count(path) for path in paths)
    finding = 0.0

    def ours(path: Path) -> Grids:
        nonlocal finding
        drafts = read(path)
        begun = time.process_time()
        found = tables_of(drafts)
        finding += time.process_time() - begun
        return found

    mine = _measured(scorer, paths, pages, ours)
    unruled = _measured(scorer, paths, pages, lambda path: tables_of(read(path), with_rulings=False))
    figures = {"pages": pages, **mine, "alone_pages_per_second": finding and round(pages / finding)}
    figures["unruled_f1"] = unruled["f1"]
    ratios = {}
    for package, names in PEERS.items():
        if importlib.util.find_spec(package) is None:
            continue
        for name in names:
            if name == "tablers_or_network" and importlib.util.find_spec("camelot") is None:
                continue
            peer = _measured(scorer, paths, pages, lambda path, name=name: getattr(scorer, name)(str(path)))
            figures |= {f"{name}_{key}": value for key, value in peer.items()}
            ratios[f"vs_{name}"] = round(mine["pages_per_second"] / peer["pages_per_second"], 2)
    return {"ratios": ratios, "figures": figures}


def material() -> Path | None:
    root = Path(__file__).parents[1]
    folder = Path(os.environ.get("PENSTOCK_TEST_DATA") or root.parent / "shared" / "data") / "tables"
    return folder if (folder / "score_tables.py").exists() else None


def load_scorer(folder: Path) -> Any:
    spec = importlib.util.spec_from_file_location("score_tables", folder / "score_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path: Path) -> list[PageDraft]:
    count = _page_count(path)
    drafts: list[PageDraft] = []
    with path.open("rb") as file:
        while len(drafts) < count:
            file.seek(0)
            drafts.extend(read_pages(file, len(drafts) + 1, count, {}))
    return drafts


def _page_count(path: Path) -> int:
    document = pypdfium2.PdfDocument(path)
    try:
        return len(document)
    finally:
        document.close()


def tables_of(drafts: list[PageDraft], *, with_rulings: bool = True) -> Grids:
    return {
        draft.page.number: [
            grid_of(table)
            for table in find_tables(
                draft.page.spans, draft.rulings if with_rulings else [], (draft.page.width, draft.page.height)
            )
        ]
        for draft in drafts
    }


def grid_of(table: Table) -> list[list[str | None]]:
    rows: list[list[str | None]] = [[None] * table.columns for _ in range(table.rows)]
    for cell in table.cells:
        rows[cell.row][cell.column] = cell.text
    return rows


def score(scorer: Any, paths: list[Path], tool: Callable[[Path], Grids]) -> collections.Counter[str]:
    total: collections.Counter[str] = collections.Counter()
    for path in paths:
        total += scorer.doc_counts(scorer.load_gt(path.with_name(f"{path.stem}-str.xml")), tool(path))
    return total


def _measured(scorer: Any, paths: list[Path], pages: int, tool: Callable[[Path], Grids]) -> dict[str, float]:
    """Time is that of the processor: others may be at work on this machine."""
    begun = time.process_time()
    with contextlib.redirect_stdout(io.StringIO()):
        found = {path: tool(path) for path in paths}
    seconds = time.process_time() - begun
    total = score(scorer, paths, found.__getitem__)
    precision, recall, f1 = scorer.prf(total["c_tp"], total["c_gt"], total["c_pr"])
    return {
        "precision": round(precision, 3),
        "recall": round(recall, 3),
        "f1": round(f1, 3),
        "pages_per_second": round(pages / seconds, 1),
    }
