"""Compares what the PDF gate accepts with what other readers see in it, over damaged files.

`python -m tests.chaos.pdf_gate_fuzz --files 20000 --seed 1`; with `--scan-alone` the scan over the bytes has to find
by itself what any reader sees, which is stricter. A file that is accepted though a reader (qpdf with and
without repair, PDFium, pypdf, pdfminer.six) sees an action in it is a failure: it is made smaller and kept in
tests/corpus/pdf_gate, where a test refuses it from then on. Files run in child processes, as a reader may crash.
"""

import argparse
import hashlib
import io
import os
import pickle
import random
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pikepdf

from penstock.pdf.findings import Inspection
from tests.support.action_pdfs import HIDDEN_SCRIPTS, HONEST, OTHER_ACTIONS
from tests.support.forked_pdfs import DAMAGED_XFA, FORKED, HONEST_FORKS
from tests.support.gate import inspected, scanned
from tests.support.pdf_readers import views
from tests.support.pdf_word_mutators import ALL_MUTATORS
from tests.support.pdfs import packed, text_pages

CORPUS = Path(__file__).parents[1] / "corpus" / "pdf_gate"
_LARGEST = 40_000
_BATCH = 50
_SECONDS = 20
Gate = Callable[[bytes], Inspection]
_ALL = {name: mutator for kind in ALL_MUTATORS.values() for name, mutator in kind.items()}


@dataclass
class Tried:
    """One damaged file, and what became of it."""

    seed: str
    is_hostile: bool
    mutators: list[str]
    codes: list[str] = field(default_factory=list)
    seen: dict[str, list[str]] = field(default_factory=dict)  # by readers, in a file that was accepted
    data: bytes = b""  # kept where it is a failure
    note: str = ""

    @property
    def is_failure(self) -> bool:
        return bool(self.seen)


@cache
def seeds() -> dict[str, tuple[bool, bytes]]:
    """Files by name, and whether they hold an action."""
    hostile = {**HIDDEN_SCRIPTS, **{name: data for name, (_, data) in OTHER_ACTIONS.items()}, **FORKED, **DAMAGED_XFA}
    honest = {**HONEST, **HONEST_FORKS, "text": text_pages(2, 3), "packed text": packed(text_pages(2, 3))}
    # A comment in the XML that names an element: our readers here go by words.
    honest.pop("XFA that says script")
    found = {f"hostile: {name}": (True, data) for name, data in hostile.items()}
    found |= {f"honest: {name}": (False, data) for name, data in honest.items()}
    found = {name: (bad, data) for name, (bad, data) in found.items() if len(data) <= _LARGEST}
    found |= {
        f"{name}, {way}": (not inspected(made).ok, made)  # an object that qpdf did not see is gone
        for name, (_, data) in found.items()
        for way, made in _rewritten(data)
    }
    return found


def _rewritten(data: bytes) -> Iterator[tuple[str, bytes]]:
    for way, options in (
        ("packed", {"object_stream_mode": pikepdf.ObjectStreamMode.generate}),
        ("linearized", {"linearize": True}),
    ):
        made = io.BytesIO()
        try:
            with warnings.catch_warnings(), pikepdf.open(io.BytesIO(data), suppress_warnings=True) as pdf:
                warnings.simplefilter("ignore")
                pdf.save(made, **options)
        except pikepdf.PdfError:
            continue
        yield way, made.getvalue()


def mutated(files: int, seed: int) -> Iterator[tuple[Tried, bytes]]:
    """Damaged files, the same ones for the same seed."""
    chance = random.Random(seed)
    chosen = sorted(seeds().items())
    for _ in range(files):
        name, (is_hostile, data) = chance.choice(chosen)
        names = chance.choices(sorted(_ALL), k=chance.choice([1, 1, 2, 2, 3, 4]))
        for each in names:
            data = _ALL[each](data, chance) or b"%PDF-1.7\n"
        yield Tried(name, is_hostile, names), data


def judge(tried: Tried, data: bytes, gate: Gate = inspected) -> Tried:
    found = gate(data)
    tried.codes = sorted({issue.code for issue in found.issues})
    if found.ok:
        tried.seen = views(data)
        tried.data = data if tried.seen else b""
    return tried


def smaller(data: bytes, gate: Gate, seconds: float = 20) -> bytes:
    """The file without what it does not take to fail."""
    until, size = time.monotonic() + seconds, len(data) // 2
    while size and time.monotonic() < until:
        at = 0
        while at < len(data) and time.monotonic() < until:
            made = data[:at] + data[at + size :]
            if made and gate(made).ok and views(made):
                data = made
            else:
                at += size
        size //= 2
    return data


def _overdue(*_: object) -> None:
    raise TimeoutError


def _run_batch(batch: list[tuple[Tried, bytes]], done: int, sink: int, gate: Gate) -> None:
    """In a child: judge the files from `done` on, one record each."""
    signal.signal(signal.SIGALRM, _overdue)
    with os.fdopen(sink, "wb") as out:
        for tried, data in batch[done:]:
            signal.alarm(_SECONDS)
            try:
                judge(tried, data, gate)
            except TimeoutError:
                tried.note = "too slow"
            signal.alarm(0)
            pickle.dump(tried, out)
            out.flush()


def run_apart(batch: list[tuple[Tried, bytes]], gate: Gate = inspected) -> Iterator[Tried]:
    """Judge a batch in children: where one crashes, the next goes on behind that file."""
    done = 0
    while done < len(batch):
        source, sink = os.pipe()
        child = os.fork()
        if not child:
            os.close(source)
            try:
                _run_batch(batch, done, sink, gate)
            finally:
                os._exit(0)
        os.close(sink)
        with os.fdopen(source, "rb") as records:
            while True:
                try:
                    yield pickle.load(records)
                except EOFError:
                    break
                done += 1
        os.waitpid(child, 0)
        if done < len(batch):
            batch[done][0].note = "a reader crashed"
            yield batch[done][0]
            done += 1


def report(tried: list[Tried]) -> str:
    lines = [f"{'mutator':20} {'files':>6} {'accepted':>8} {'refused':>8} {'failures':>8}"]
    for name in sorted(_ALL):
        with_it = [each for each in tried if name in each.mutators]
        accepted = sum(not each.codes and not each.note for each in with_it)
        failed = sum(each.is_failure for each in with_it)
        lines.append(f"{name:20} {len(with_it):6} {accepted:8} {sum(map(bool, map(_codes, with_it))):8} {failed:8}")
    for is_hostile in (True, False):
        some = [each for each in tried if each.is_hostile is is_hostile]
        codes = Counter(code for each in some for code in each.codes)
        accepted = sum(not each.codes and not each.note for each in some)
        kind = "with an action" if is_hostile else "honest before the damage"
        lines.append(f"{kind}: {len(some)} files, {accepted} accepted; refused for {dict(codes.most_common())}")
    notes = Counter(each.note for each in tried if each.note)
    lines.append(
        f"{len(tried)} files, {sum(each.is_failure for each in tried)} failures, {dict(notes) or 'no crashes'}"
    )
    return "\n".join(lines)


def _codes(tried: Tried) -> list[str]:
    return tried.codes


def _say(*said: object) -> None:
    sys.stdout.write(" ".join(map(str, said)) + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--scan-alone", action="store_true")
    options = parser.parse_args()
    gate = scanned if options.scan_alone else inspected
    _say(f"seed {options.seed}")
    refused = [name for name, (bad, data) in seeds().items() if not bad and not gate(data).ok]
    _say(f"honest files before the damage: {len(refused)} refused {refused}")
    tried: list[Tried] = []
    batch: list[tuple[Tried, bytes]] = []
    for each in mutated(options.files, options.seed):
        batch.append(each)
        if len(batch) == _BATCH:
            tried += _judged(batch, gate)
            batch = []
            if len(tried) % 1000 == 0:
                _say(f"{len(tried)} files, {sum(one.is_failure for one in tried)} failures")
    tried += _judged(batch, gate)
    _say(report(tried))
    return int(any(each.is_failure for each in tried) or bool(refused))


def _judged(batch: list[tuple[Tried, bytes]], gate: Gate) -> list[Tried]:
    found = list(run_apart(batch, gate))
    for each in found:
        if each.is_failure:
            _say("FAILURE", each.seed, each.mutators, each.seen)
            CORPUS.mkdir(parents=True, exist_ok=True)
            least = smaller(each.data, gate)
            (CORPUS / f"{hashlib.sha256(least).hexdigest()[:16]}.pdf").write_bytes(least)
    return found


if __name__ == "__main__":
    sys.exit(main())
