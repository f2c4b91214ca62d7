"""Inspection and prescan of a 1,000-page text PDF, against one process that only extracts the text of every page.

Ratios are times: 2.0 means twice as long. The bare loop is a plain pypdfium2 program without a sandbox: open, load
each page, take its text. Ours checks every object, inflates every stream and measures every page, on all places of
the pool. Pages per second on real files are measured where such files are at hand (PENSTOCK_TEST_DATA).
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

from bench.corpus import RULES, pdfs_in
from penstock.kernel.sandbox import SandboxSettings
from penstock.pdf import Examiner, PdfSettings, judge_pages, pdf_sandbox

_PAGES = 1000
_ROUNDS = 5
_BARE = """
import sys, time
import pypdfium2
begun = time.perf_counter()
for path in sys.argv[1:]:
    document = pypdfium2.PdfDocument(path)
    for page in document:
        text = page.get_textpage()
        text.get_text_range()
        text.close()
        page.close()
    document.close()
print(time.perf_counter() - begun)
"""


def run() -> dict[str, Any]:
    """Median of five rounds, ours and the bare loop in turn, so that a busy moment touches both."""
    return asyncio.run(_run())


async def _run() -> dict[str, Any]:
    settings = PdfSettings()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        book = _book(Path(name))
        async with pdf_sandbox(settings, SandboxSettings()) as sandbox:
            examiner = Examiner(sandbox, settings)
            rounds = [await _round(examiner, [book]) for _ in range(_ROUNDS)]
            catalogues = _catalogues()
            real = [await _round(examiner, catalogues) for _ in range(3)] if catalogues else []
    ours, bare = _medians(rounds)
    figures: dict[str, Any] = {
        "pages": _PAGES,
        "inspect_ms": round(statistics.median(each["inspect"] for each in rounds) * 1e3, 1),
        "prescan_ms": round(statistics.median(each["prescan"] for each in rounds) * 1e3, 1),
        "bare_text_ms": round(bare * 1e3, 1),
        "pages_per_second": round(_PAGES / ours),
    }
    ratios = {"vs_bare_text_extraction": round(ours / bare, 2)}
    if real:
        ours, bare = _medians(real)
        figures["catalogue_pages_per_second"] = round(real[0]["pages"] / ours)
        ratios["catalogues_vs_bare_text_extraction"] = round(ours / bare, 2)
    return {"name": "pdf", "ratios": ratios, "figures": figures}


def _medians(rounds: list[dict[str, float]]) -> tuple[float, float]:
    ours = statistics.median(each["inspect"] + each["prescan"] for each in rounds)
    return ours, statistics.median(each["bare"] for each in rounds)


async def _round(examiner: Examiner, paths: list[Path]) -> dict[str, float]:
    inspecting = prescanning = 0.0
    pages = 0
    for path in paths:
        begun = time.perf_counter()
        found = await examiner.inspect(path)
        inspected = time.perf_counter()
        scan = await examiner.prescan(path, found.page_count, RULES)
        if not found.ok or not scan.ok or judge_pages(scan.pages, RULES).all_blank:
            raise RuntimeError(f"{path.name} was not taken: {found.issues} {scan.issues}")
        inspecting += inspected - begun
        prescanning += time.perf_counter() - inspected
        pages += found.page_count
    bare = await asyncio.to_thread(_bare, paths)
    return {"inspect": inspecting, "prescan": prescanning, "bare": bare, "pages": pages}


def _bare(paths: list[Path]) -> float:
    ended = subprocess.run([sys.executable, "-c", _BARE, *map(str, paths)], check=True, stdout=subprocess.PIPE)
    return float(ended.stdout)


def _catalogues() -> list[Path]:
    data = os.environ.get("PENSTOCK_TEST_DATA")
    return pdfs_in(Path(data) / "catalogues") if data else []


def _book(directory: Path) -> Path:
    """About 2,700 letters a page, in 40 lines."""
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(_PAGES))
    font = "<</Font<</F 3 0 R>>>>"
    bodies = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {_PAGES}/MediaBox[0 0 595 842]/Resources{font}>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for index in range(_PAGES):
        line = "The quick brown fox jumps over the lazy dog and does not look back"
        shown = "".join(f"({index}.{number} {line}) Tj T* " for number in range(40))
        content = zlib.compress(f"BT /F 10 Tf 12 TL 60 780 Td {shown} ET".encode())
        bodies.append(f"<</Type/Page/Parent 2 0 R/Contents {5 + 2 * index} 0 R>>".encode())
        bodies.append(b"<</Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (len(content), content))
    path = directory / "book.pdf"
    path.write_bytes(_written(bodies))
    return path


def _written(bodies: list[bytes]) -> bytes:
    out, offsets = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(bodies, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start, size = len(out), len(bodies) + 1
    out += b"xref\n0 %d\n0000000000 65535 f \n" % size + b"".join(b"%010d 00000 n \n" % at for at in offsets)
    return bytes(out) + b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (size, start)


if __name__ == "__main__":
    from penstock.kernel import json

    sys.stdout.write(json.dumps(run()) + "\n")
