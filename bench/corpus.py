"""Every PDF below a directory through inspection and prescan: `python -m bench.corpus DIR`.

Prints a table of verdicts, the files refused, and the slowest. The point is what must never happen: a file without a
verdict, a call beyond its limits, a pool that does not answer afterwards.
"""

import argparse
import asyncio
import resource
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import structlog

from penstock.kernel.sandbox import SandboxSettings
from penstock.pdf import Examiner, PdfSettings, PrescanRules, judge_pages, pdf_sandbox

RULES = PrescanRules(
    min_text_chars_for_blank=10,
    max_ink_for_blank=0.0005,
    ocr_rate_penalty_threshold=0.3,
    ocr_rate_penalty_weight=0.15,
    no_images_penalty_weight=0.1,
)


@dataclass(frozen=True)
class Verdict:
    """What became of one file."""

    path: Path
    codes: tuple[str, ...]
    told: str
    seconds: float
    pages: int
    blank: int


def pdfs_in(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.suffix.lower() == ".pdf" and path.is_file())


async def main(paths: list[Path], shown: int) -> int:
    settings = PdfSettings()
    async with pdf_sandbox(settings, SandboxSettings()) as sandbox:
        examiner = Examiner(sandbox, settings)
        begun = time.perf_counter()
        turns = asyncio.Semaphore(sandbox.settings.workers)

        async def judge(path: Path) -> Verdict:
            async with turns:
                return await _verdict(examiner, path)

        verdicts = await asyncio.gather(*(judge(path) for path in paths))
        alive = (await sandbox.call("operator:add", 1, 2)).value == 3
    _print(verdicts, time.perf_counter() - begun, shown)
    late = settings.security_parse_timeout_sec * 2 + 5
    return 0 if alive and all(each.seconds < late for each in verdicts) else 1


async def _verdict(examiner: Examiner, path: Path) -> Verdict:
    begun = time.perf_counter()
    found = await examiner.inspect(path)
    issues, blank = found.issues, 0
    if found.ok:
        scan = await examiner.prescan(path, found.page_count, RULES)
        issues, blank = scan.issues, len(judge_pages(scan.pages, RULES, found.images_in_patterns).blank_pages)
    told = "; ".join(f"{each.place}: {each.detail}" for each in issues[:2])
    codes = tuple(sorted({each.code for each in issues}))
    return Verdict(path, codes, told, time.perf_counter() - begun, found.page_count, blank)


def _print(verdicts: list[Verdict], seconds: float, shown: int) -> None:
    say = sys.stdout.write
    counts = Counter(code for each in verdicts for code in each.codes or ("passed",))
    say(f"{len(verdicts)} files, {sum(each.pages for each in verdicts)} pages, {seconds:.1f} s\n\n")
    for code, count in counts.most_common():
        say(f"{count:6} {code}\n")
    say("\nrefused\n")
    for each in verdicts:
        if each.codes:
            say(f"  {each.path.name[:40]:40} {', '.join(each.codes)} | {each.told[:160]}\n")
    say("\nslowest\n")
    for each in sorted(verdicts, key=lambda each: -each.seconds)[:shown]:
        say(f"  {each.seconds:7.2f} s {each.pages:5} pages  {each.path.name}\n")
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
    say(f"\nlargest process: {most} MiB; this one: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--slowest", type=int, default=8)
    given = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    sys.exit(asyncio.run(main(pdfs_in(given.directory), given.slowest)))
