"""ETL from submission to completed task, against the bare loops that its reading rests on.

Text: PDFs with a text layer against pypdfium2 that only takes the text of each page, in one process and in one per
core. Scans: against the recogniser called directly in one process per core. Ratios are speeds, by the clock and by the
processors' time of all processes that read (`_cpu`); ours has the claim, inspection, tables, blocks, pictures, the
store with its fsyncs, markdown and result in it. Tasks: what 500 queued documents of one page cost besides reading.
`--memory 1000` prints what the processes hold on the way. Real files need PENSTOCK_TEST_DATA.
"""

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pikepdf
import psutil
import uvloop
from PIL import Image

from bench import servers
from bench.corpus import pdfs_in
from bench.pdf import _book as book_in
from bench.pdf_ocr import _bare as bare_recogniser
from bench.pdf_ocr import _book as scans_in
from bench.pdf_ocr import _pictures as pictures_in
from penstock.bootstrap import Parts, load_settings, started
from penstock.extraction import settling
from penstock.extraction.holding import claim
from penstock.extraction.states import Stage
from penstock.extraction.submit import Submission, submit
from penstock.kernel import error_codes
from penstock.kernel.db import fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Role
from penstock.worker import run_worker

_ROUNDS = 3
_TASKS = 500
_SCANS = 8
_OURS = Caller("bench", "m-1", Role.OPERATOR)
_BARE = """
import sys, time
import pypdfium2
at, of = int(sys.argv[1]), int(sys.argv[2])
begun, used = time.perf_counter(), time.process_time()
for path in sys.argv[3:]:
    document = pypdfium2.PdfDocument(path)
    for number in range(at, len(document), of):
        page = document[number]
        text = page.get_textpage()
        text.get_text_range()
        text.close()
        page.close()
    document.close()
print(time.perf_counter() - begun, time.process_time() - used)
"""
Seconds = tuple[float, float]  # by the clock, of the processors


def run(*, parts: Sequence[str] = ("text", "scans", "tasks")) -> dict[str, Any]:
    """Best of three rounds, ours and the bare loops in turn, so that a busy moment touches both."""
    return uvloop.run(_run(parts))


async def _run(parts: Sequence[str]) -> dict[str, Any]:
    ratios: dict[str, float] = {}
    figures: dict[str, Any] = {"load_at_start": round(os.getloadavg()[0], 1)}
    async with _place() as (place, directory):
        if "text" in parts:
            for what, paths in _texts(directory).items():
                await _text(place, what, paths, ratios, figures)
        if "scans" in parts:
            await _scans(place, directory, ratios, figures)
        if "tasks" in parts:
            figures |= await _tasks()
    figures["load_at_end"] = round(os.getloadavg()[0], 1)
    return {"name": "etl", "ratios": ratios, "figures": figures}


# A place with everything in it --------------------------------------------------------------------------------------
@asynccontextmanager
async def _place(*, works: bool = True) -> AsyncIterator[tuple[Parts, Path]]:
    async with AsyncExitStack() as stack:
        name = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-")))
        name.chmod(0o755)  # noqa: ASYNC240  at the start, nothing waits for it
        environment = {
            "PENSTOCK_DATABASE_URL": stack.enter_context(servers.postgres()),
            "PENSTOCK_REDIS_URL": stack.enter_context(servers.redis()),
            "PENSTOCK_HOME": str(name / "home"),
            "PENSTOCK_LOG_LEVEL": "error",
        }
        stack.enter_context(_environment(environment))
        parts = await stack.enter_async_context(started(load_settings(), role="worker"))
        if works:
            await stack.enter_async_context(_working(parts))
        yield parts, name


@asynccontextmanager
async def _working(parts: Parts) -> AsyncIterator[None]:
    stop = asyncio.Event()
    worker = asyncio.create_task(run_worker(parts, stop))
    try:
        yield
    finally:
        stop.set()
        await worker


@contextmanager
def _environment(given: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


async def _read(parts: Parts, paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Submitted together; the rows, once all have ended."""
    rows = [await _submit(parts, path) for path in paths]
    return await _ended(parts, [row["task_id"] for row in rows])


async def _submit(parts: Parts, path: Path) -> dict[str, Any]:
    key = f"inbox/{_OURS.merchant_id}/{path.name}"
    await parts.store.put_file(key, path)
    return await submit(parts.etl, Submission(_OURS, object_key=key))


async def _ended(parts: Parts, tasks: Sequence[int]) -> list[dict[str, Any]]:
    while True:
        async with parts.database.statement() as tx:
            query = "select 1 from etl_task where task_id between %s and %s and status = 'pending' limit 1"
            open_tasks = await fetch_all(tx, query, (min(tasks), max(tasks)))
        if not open_tasks:
            break
        await asyncio.sleep(0.02 if len(tasks) < 100 else 0.2)  # the onlooker's own time is counted as well
    async with parts.database.transaction() as tx:
        rows = await fetch_all(tx, "select * from etl_task where task_id = any(%s) order by task_id", (list(tasks),))
    if wrong := [row["error"] for row in rows if row["status"] != "completed"]:
        raise RuntimeError(f"not completed: {wrong[0]}")
    return rows


async def _timed(work: Callable[[], Awaitable[Any]]) -> Seconds:
    """By the clock, and of the processors for this process and all that it started."""
    begun, before = time.perf_counter(), _used()
    await work()
    return time.perf_counter() - begun, _used() - before


def _used() -> float:
    """Ours, our living children's, and those that have ended; the servers are nobody's children here."""
    ended, own = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
    total = ended.ru_utime + ended.ru_stime + own.ru_utime + own.ru_stime
    for child in _readers():
        try:
            total += sum(child.cpu_times()[:4])  # its own, and those of the processes that it forked
        except psutil.Error:
            continue
    return total


def _readers() -> list[psutil.Process]:
    found = []
    for child in psutil.Process().children():
        try:
            if any(part.endswith("sandbox/worker.py") for part in child.cmdline()):
                found.append(child)
        except psutil.Error:
            continue
    return found


# Text layers --------------------------------------------------------------------------------------------------------
def _texts(directory: Path) -> dict[str, list[Path]]:
    sets = {"book": [book_in(directory)]}
    if data := os.environ.get("PENSTOCK_TEST_DATA"):
        sets["catalogues"] = pdfs_in(Path(data) / "catalogues")
        sets["tables"] = pdfs_in(Path(data) / "tables")
    return sets


async def _text(parts: Parts, what: str, paths: list[Path], ratios: dict[str, float], figures: dict[str, Any]) -> None:
    """Files of which a page had to be recognised are no text-layer PDFs: they are left out, and counted."""
    first = await _read(parts, paths)
    chosen = [path for path, row in zip(paths, first, strict=True) if not row["result"]["metadata"]["pages_recognised"]]
    pages = sum(row["result"]["page_count"] for row in first if not row["result"]["metadata"]["pages_recognised"])
    rounds = []
    for _ in range(_ROUNDS):
        ours = await _timed(lambda: _read(parts, chosen))
        rounds.append(
            (ours, await asyncio.to_thread(_bare, chosen, 1), await asyncio.to_thread(_bare, chosen, _cores()))
        )
    (ours, cpu), (bare, bare_cpu), (both, _) = (
        tuple(min(each[at] for each in column) for at in (0, 1)) for column in zip(*rounds, strict=True)
    )
    ratios[f"{what}_vs_bare_text_extraction"] = round(bare / ours, 2)
    ratios[f"{what}_vs_bare_text_extraction_on_all_cores"] = round(both / ours, 2)
    ratios[f"{what}_vs_bare_text_extraction_cpu"] = round(bare_cpu / cpu, 2)
    figures[f"{what}_files"] = len(chosen)
    figures[f"{what}_files_left_out"] = len(paths) - len(chosen)
    figures[f"{what}_pages"] = pages
    figures[f"{what}_ms_per_page"] = round(1e3 * ours / pages, 2)
    figures[f"{what}_cpu_ms_per_page"] = round(1e3 * cpu / pages, 2)
    figures[f"{what}_bare_cpu_ms_per_page"] = round(1e3 * bare_cpu / pages, 2)


def _bare(paths: Sequence[Path], processes: int) -> Seconds:
    """Every page once, dealt out to so many processes; their start is not counted."""
    programs = [
        subprocess.Popen([sys.executable, "-c", _BARE, str(at), str(processes), *map(str, paths)], stdout=-1, text=True)
        for at in range(processes)
    ]
    told = [[float(each) for each in program.communicate()[0].split()] for program in programs]
    return max(seconds for seconds, _ in told), sum(used for _, used in told)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


# Scans --------------------------------------------------------------------------------------------------------------
async def _scans(parts: Parts, directory: Path, ratios: dict[str, float], figures: dict[str, Any]) -> None:
    pictures = pictures_in(directory)
    pictures = pictures[:: max(1, len(pictures) // _SCANS)][:_SCANS]
    book = scans_in(pictures, directory / "scans.pdf")
    await _read(parts, [scans_in(pictures[:1], directory / "first.pdf")])  # the models are loaded now
    rounds = [
        (await _timed(lambda: _read(parts, [book])), await asyncio.to_thread(bare_recogniser, pictures))
        for _ in range(_ROUNDS)
    ]
    (ours, cpu), (bare, bare_cpu) = (
        tuple(min(each[at] for each in column) for at in (0, 1)) for column in zip(*rounds, strict=True)
    )
    ratios["scans_vs_bare_recogniser"] = round(bare / ours, 2)
    ratios["scans_vs_bare_recogniser_cpu"] = round(bare_cpu / cpu, 2)
    figures |= {
        "scans_pages": len(pictures),
        "scans_seconds_per_page": round(ours / len(pictures), 2),
        "scans_cpu_seconds_per_page": round(cpu / len(pictures), 2),
        "scans_bare_cpu_seconds_per_page": round(bare_cpu / len(pictures), 2),
    }


# Many small tasks ---------------------------------------------------------------------------------------------------
async def _tasks() -> dict[str, Any]:
    """Submitted while nobody works, then worked off.

    Own time is all processor time of this process, user and system, over all its threads, from the first submission to
    the last end: claims, queue, run states, calls into the sandbox and what they return, markdown, the store with its
    fsyncs, the heartbeat, and this onlooker. Not in it: the sandboxed processes that look into the file and read it
    (`tasks_reading_cpu_ms`), PostgreSQL and Redis. Nothing is left out of it, so a busy machine makes it larger.
    """
    async with _place(works=False) as (parts, directory):
        page = _short_book(directory, 1)
        async with _working(parts):
            await _read(parts, [page] * 5)  # everything is loaded now
        key = f"inbox/{_OURS.merchant_id}/{page.name}"
        begun, used = time.perf_counter(), time.process_time()
        rows = [await submit(parts.etl, Submission(_OURS, object_key=key)) for _ in range(_TASKS)]
        submitting = time.perf_counter() - begun, time.process_time() - used
        begun, used, reading = time.perf_counter(), time.process_time(), _used()
        async with _working(parts):
            await _ended(parts, [row["task_id"] for row in rows])
            working = time.perf_counter() - begun, time.process_time() - used
        total = _used() - reading
        figures = await _pieces(parts, page)
    figures |= {
        f"tasks_{what}_ms": _each(seconds) for what, (seconds, _) in (("submit", submitting), ("work", working))
    }
    figures |= {f"tasks_{what}_cpu_ms": _each(cpu) for what, (_, cpu) in (("submit", submitting), ("work", working))}
    own = submitting[1] + working[1]
    return figures | {
        "tasks": _TASKS,
        "tasks_own_cpu_ms": _each(own),
        "tasks_reading_cpu_ms": _each(total - working[1]),
    }


async def _pieces(parts: Parts, page: Path) -> dict[str, Any]:
    """What one task has of each: jobs that find nothing to do, objects of a usual size, and a claim with a settling."""

    async def jobs() -> None:
        for number in range(_TASKS):
            await parts.etl.queue.wake("etl_ocr", -number - 1, once=f"none:{number}")
        async with _working(parts):
            while await parts.etl.queue.arq.zcard(parts.etl.queue.name):  # noqa: ASYNC110  Redis tells nobody
                await asyncio.sleep(0.02)

    async def puts() -> None:
        for number in range(_TASKS):
            await parts.store.put(f"bench/{number}.json", b"x" * 4096)

    async def holds() -> None:
        rows = [await submit(parts.etl, Submission(_OURS, object_key=f"inbox/m-1/{page.name}")) for _ in range(_TASKS)]
        nonlocal held
        begun = time.perf_counter(), time.process_time()
        for row in rows:
            claimed = await claim(parts.etl, row["task_id"], Stage.OCR, "bench")
            if claimed is not None:
                await settling.fail(claimed, PenstockError(error_codes.PDF_UNREADABLE))
        held = time.perf_counter() - begun[0], time.process_time() - begun[1]

    held = (0.0, 0.0)
    figures: dict[str, Any] = {}
    for what, work in (("job", jobs), ("put", puts), ("claim_and_settle", holds)):
        begun, used = time.perf_counter(), time.process_time()
        await work()
        seconds, cpu = held if work is holds else (time.perf_counter() - begun, time.process_time() - used)
        figures |= {f"one_{what}_ms": _each(seconds), f"one_{what}_cpu_ms": _each(cpu)}
    return figures


def _each(seconds: float) -> float:
    return round(1e3 * seconds / _TASKS, 2)


# Memory -------------------------------------------------------------------------------------------------------------
async def _memory(most: int) -> dict[str, Any]:
    """The most that this process and those that read held while a tenth of the pages, and all of them, were read."""
    figures: dict[str, Any] = {}
    for kind, made, counts in (("text", _short_book, (most // 10, most)), ("scans", _strips, (most // 50, most // 5))):
        for count in counts:
            async with _place() as (parts, directory):
                peaks = await _watched(_read(parts, [made(directory, count)]))
            figures |= {f"{kind}_{count}_pages_{who}_mib": peak >> 20 for who, peak in peaks.items()}
    return {"name": "etl_memory", "ratios": {}, "figures": figures}


async def _watched(work: Coroutine[Any, Any, Any]) -> dict[str, int]:
    peaks = {"own": 0, "largest_reader": 0}
    running = asyncio.create_task(work)
    while not running.done():
        own = psutil.Process().memory_info().rss
        peaks = {
            "own": max(peaks["own"], own),
            "largest_reader": max([peaks["largest_reader"], *(each.memory_info().rss for each in _readers())]),
        }
        await asyncio.wait({running}, timeout=0.1)
    running.result()
    return peaks


def _short_book(directory: Path, count: int) -> Path:
    path = directory / f"{count}.pdf"
    with pikepdf.open(book_in(directory)) as book, pikepdf.new() as made:
        made.pages.extend(list(book.pages)[:count])
        made.save(path)
    return path


def _strips(directory: Path, count: int) -> Path:
    """Scans of a few lines each: many pages in little time."""
    whole = Image.open(pictures_in(directory)[0]).convert("L")
    tops = [100 + at * 131 % (whole.height - 400) for at in range(count)]
    first, *others = [whole.crop((0, top, 700 + top % 500, top + 150)) for top in tops]
    first.save(directory / "strips.pdf", "PDF", resolution=150, save_all=True, append_images=others)
    return directory / "strips.pdf"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["text", "scans", "tasks"])
    parser.add_argument("--memory", type=int, default=0)
    asked = parser.parse_args()
    told = uvloop.run(_memory(asked.memory)) if asked.memory else run(parts=asked.parts)
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
