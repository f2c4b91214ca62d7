"""Scanned pages through the reader, against the recogniser called directly in as many one-thread processes.

Ours reads a PDF of scans: text pass, drawing, orientation, recognition, lines, tables, blocks, in locked-in processes.
The bare program gets the same pages as picture files and only recognises. Both have their models loaded before the
clock starts. Character errors are counted by kind of page where there is material with its text (PENSTOCK_TEST_DATA);
spaces do not count, nor whether a mark is of full or half width, except in the figure "with widths".
`--memory 1000` reads so many small pages and prints what the processes hold.
"""

import argparse
import asyncio
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from PIL import Image, ImageDraw, ImageFont

from penstock.kernel.sandbox import SandboxSettings
from penstock.pdf import PdfSettings, pdf_sandbox
from penstock.pdf.ocr.pool import cores
from penstock.pdf.ocr.settings import OcrSettings
from penstock.pdf.pages.model import Page
from penstock.pdf.reader import PDF, PageReader

_ROUNDS = 3
_BARE = """
import os, sys, time
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
import cv2
cv2.setNumThreads(1)
from rapidocr import RapidOCR
engine = RapidOCR(params={
    "Global.use_cls": False, "Global.log_level": "critical",
    "EngineConfig.onnxruntime.intra_op_num_threads": 1, "EngineConfig.onnxruntime.inter_op_num_threads": 1,
})
engine(sys.argv[1])
print(time.process_time(), flush=True)
for line in sys.stdin:
    engine(line.strip())
    print(time.process_time(), flush=True)
"""


def run(pages: int | None = None, *, with_errors: bool = True) -> dict[str, Any]:
    return asyncio.run(_run(pages, with_errors=with_errors))


async def _run(count: int | None, *, with_errors: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        pictures = _pictures(Path(name))
        pictures = pictures[:: max(1, len(pictures) // (count or len(pictures)))][:count]  # of all kinds
        book = _book(pictures, Path(name) / "scans.pdf")
        async with _reader() as reader:
            await _read(reader, _book(pictures[:1], Path(name) / "first.pdf"), PDF)  # the models are loaded now
            rounds = [(await _ours(reader, book), await asyncio.to_thread(_bare, pictures)) for _ in range(_ROUNDS)]
            errors = await _errors(reader) if with_errors else {}
    seconds, cpu = (statistics.median(ours[at] for ours, _ in rounds) for at in (0, 1))
    bare_seconds, bare_cpu = (statistics.median(bare[at] for _, bare in rounds) for at in (0, 1))
    figures: dict[str, Any] = {
        "pages": len(pictures),
        "processes": cores(),
        "seconds_per_page": round(seconds / len(pictures), 2),
        "bare_seconds_per_page": round(bare_seconds / len(pictures), 2),
        "cpu_seconds_per_page": round(cpu / len(pictures), 2),
        "bare_cpu_seconds_per_page": round(bare_cpu / len(pictures), 2),
    }
    figures |= {f"character_errors_percent_{kind}": round(100 * share, 3) for kind, share in errors.items()}
    return {
        "name": "pdf_ocr",
        "ratios": {"vs_bare_recogniser": round(bare_seconds / seconds, 2)},
        "figures": figures,
    }


@asynccontextmanager
async def _reader() -> AsyncIterator[PageReader]:
    settings, sandboxes = PdfSettings(), SandboxSettings()
    async with pdf_sandbox(settings, sandboxes) as pool, PageReader(pool, settings, OcrSettings(), sandboxes) as reader:
        yield reader


async def _ours(reader: PageReader, book: Path) -> tuple[float, float]:
    """Seconds by the clock, and of all processors."""

    def used() -> float:
        processes = [psutil.Process(), *psutil.Process().children()]
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    begun, before = time.perf_counter(), used()
    await _read(reader, book, PDF)
    return time.perf_counter() - begun, used() - before


async def _read(reader: PageReader, path: Path, media_type: str) -> list[Page]:
    pages = [page async for page in reader.pages(path, media_type)]
    if any("unreadable" in page.warnings for page in pages):
        raise RuntimeError(f"{path.name}: pages were not read")
    return pages


def _bare(pictures: Sequence[Path]) -> tuple[float, float]:
    """One page at a time to whoever is free, as the pool does."""
    programs = [
        subprocess.Popen([sys.executable, "-c", _BARE, pictures[0]], stdin=-1, stdout=-1, text=True)
        for _ in range(cores())
    ]
    before = sum(float(program.stdout.readline()) for program in programs)
    seconds, used = asyncio.run(_feed(programs, iter(pictures)))
    return seconds, used - before


async def _feed(programs: list[Any], pictures: Any) -> tuple[float, float]:
    used = [0.0] * len(programs)

    async def work(at: int, program: Any) -> None:
        for picture in pictures:
            program.stdin.write(f"{picture}\n")
            program.stdin.flush()
            used[at] = float(await asyncio.to_thread(program.stdout.readline))

    begun = time.perf_counter()
    await asyncio.gather(*(work(at, program) for at, program in enumerate(programs)))
    taken = time.perf_counter() - begun
    for program in programs:
        program.stdin.close()
        program.wait()
        program.stdout.close()
    return taken, sum(used)


def _material() -> list[Path]:
    data = os.environ.get("PENSTOCK_TEST_DATA")
    return sorted((Path(data) / "ocr").glob("*.png")) if data else []


def _pictures(directory: Path) -> list[Path]:
    if found := _material():
        return found
    made = []
    for number in range(8):
        page = Image.new("L", (1240, 1754), 255)
        draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=25)
        for line in range(40):
            draw.text(
                (100, 80 + 40 * line), f"{number}.{line} The quick brown fox jumps over the lazy dog", 0, font=font
            )
        made.append(directory / f"{number}.png")
        page.save(made[-1])
    return made


def _book(pictures: Sequence[Path], path: Path) -> Path:
    first, *others = [Image.open(picture).convert("RGB") for picture in pictures]
    first.save(path, "PDF", resolution=150, save_all=True, append_images=others, quality=95)
    return path


async def _errors(reader: PageReader) -> dict[str, float]:
    wrong: dict[str, int] = defaultdict(int)
    letters: dict[str, int] = defaultdict(int)
    pictures = _material()
    pages = await asyncio.gather(*(_read(reader, picture, "image/png") for picture in pictures))
    for picture, (page,) in zip(pictures, pages, strict=True):
        truth = json.loads(picture.with_suffix(".json").read_text())
        for said, read in _lines(page, truth):
            wrong["all_with_widths"] += distance(said, read)
            letters["all_with_widths"] += len(said)
            plain, error = _plain(said), distance(_plain(said), _plain(read))
            for kind in ("all", "leaning" if truth["angle"] else "straight", "_".join(picture.name.split("_")[:2])):
                wrong[kind] += error
                letters[kind] += len(plain)
    return {kind: wrong[kind] / letters[kind] for kind in sorted(letters)}


def _plain(text: str) -> str:
    """A Chinese colon and an English one look alike."""
    return unicodedata.normalize("NFKC", text)


def _lines(page: Page, truth: dict[str, Any]) -> list[tuple[str, str]]:
    """Each line of the truth beside all that was read nearest to it, from the left."""
    width, height = truth["size"]
    angle = math.radians(truth["angle"])
    parts: list[list[tuple[float, str]]] = [[] for _ in truth["lines"]]
    for span in page.spans:
        right, below = (span.box.x0 + span.box.x1 - 1) / 2 * width, (span.box.y0 + span.box.y1 - 1) / 2 * height
        x = right * math.cos(angle) - below * math.sin(angle) + width / 2
        y = right * math.sin(angle) + below * math.cos(angle) + height / 2
        distances = [abs((y0 + y1) / 2 - y) + 3 * max(x0 - x, x - x1, 0) for _, (x0, y0, x1, y1) in truth["lines"]]
        parts[distances.index(min(distances))].append((x, span.text))
    return [
        ("".join(said.split()), "".join("".join(text.split()) for _, text in sorted(read)))
        for (said, _), read in zip(truth["lines"], parts, strict=True)
    ]


def distance(a: str, b: str) -> int:
    """Letters to be put in, left out or changed."""
    above = list(range(len(b) + 1))
    for row, this in enumerate(a, 1):
        line = [row]
        for column, that in enumerate(b, 1):
            line.append(min(above[column] + 1, line[-1] + 1, above[column - 1] + (this != that)))
        above = line
    return above[-1]


async def memory(count: int) -> None:
    """Small pages of many sizes, as those wear a process most for their time."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        parts = []
        for at in range(100):
            picture = Image.open(_pictures(Path(name))[at % len(_pictures(Path(name)))]).convert("L")
            top = at * 131 % (picture.height - 300)
            part = picture.crop((0, top, 500 + at * 37 % 700, top + 100 + at * 17 % 150))
            parts.append(part)
        path = Path(name) / "book.tiff"
        pages = [parts[at % 100] for at in range(count)]
        pages[0].save(path, save_all=True, append_images=pages[1:], compression="tiff_deflate", dpi=(150, 150))
        async with _reader() as reader:
            read = 0
            begun = time.perf_counter()
            async for _ in reader.pages(path, "image/tiff"):
                read += 1
                if read % max(1, count // 20) == 0 or read == 10:
                    held = [child.memory_info().rss >> 20 for child in psutil.Process().children()]
                    own = psutil.Process().memory_info().rss >> 20
                    spent = time.perf_counter() - begun
                    sys.stdout.write(f"{read} pages, {spent:.0f} s: processes {sorted(held)} MiB, own {own} MiB\n")
                    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--pages", type=int)
    asked = parser.parse_args()
    if asked.memory:
        asyncio.run(memory(asked.memory))
    else:
        sys.stdout.write(
            json.dumps(run(asked.pages, with_errors=asked.pages is None), indent=1, ensure_ascii=False) + "\n"
        )
