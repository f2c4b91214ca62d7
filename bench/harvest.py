"""Harvesting 1.5 KB records, 1,000 a page, from one mock source into one PostgreSQL that syncs, candidate by candidate.

Beside ours run the fastest bare loop known (`bare_loop`: raw slices, the page kept as evidence, a transaction a page,
no promises), the loop that one writes first (`naive_loop`), dlt as it comes and at its best, and an Airbyte
declarative source, which stores nothing. Slow ones get fewer records; all take turns, and the medians of records per
second count. Time begins after imports. BENCH_SHORT=1: one round of fewer records, for a look.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench import harvest_api, servers
from penstock.embedded import EmbeddedPostgres

SHORT = bool(os.environ.get("BENCH_SHORT"))
ROUNDS = 1 if SHORT else 3
SLICES = 8
HERE = Path(__file__).parent
PEERS = HERE / "peers"
OURS = HERE / "harvest_ours.py"


@dataclass(frozen=True)
class Candidate:
    """A program that harvests `items` records and then says, in one line of JSON, {items, seconds, cpu}.

    It is given its mode, the address of the source, where to put the records, and the windows to ask for.
    """

    name: str
    python: Path
    program: Path
    mode: str
    items: int
    windows: Callable[[int], Any] = lambda items: harvest_api.window(0, items)
    stores: bool = True

    def command(self, source_url: str, target: str) -> list[str]:
        asked = json.dumps(self.windows(self.items))
        return [str(self.python), str(self.program), self.mode, source_url, target, asked]


@dataclass(frozen=True)
class Place:
    """What all candidates share."""

    source: harvest_api.Running
    database_url: str
    directory: Path
    environment: dict[str, str]


def run() -> dict[str, Any]:
    candidates = _candidates()
    with ExitStack() as stack:
        place = _place(stack)
        found: dict[str, list[dict[str, float]]] = {candidate.name: [] for candidate in candidates}
        served = []
        for _ in range(ROUNDS):
            served.append(harvest_api.read_all(place.source, 50_000))
            for candidate in candidates:
                found[candidate.name].append(_measure(candidate, place))
    medians = {
        name: {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        for name, rounds in found.items()
    }
    figures = {f"{name}_{key}": round(value, 1) for name, row in medians.items() for key, value in row.items()}
    figures |= {f"{name}_spread": _spread([each["items_per_s"] for each in rounds]) for name, rounds in found.items()}
    return {
        "name": "harvest",
        "ratios": _ratios(medians),
        "figures": {"source_items_per_s": round(statistics.median(served)), **figures},
    }


def _spread(rates: list[float]) -> float:
    """How far the rounds lie apart, as a part of their median: a ratio is worth no more than that."""
    return round((max(rates) - min(rates)) / statistics.median(rates), 2)


def _ratios(medians: dict[str, dict[str, float]]) -> dict[str, float]:
    """Ours against each; the bare loop against each where ours is not among them.

    `_cpu` compares what a record costs, client and server together: it hardly feels what else the machine does.
    """
    measured = "penstock" if "penstock" in medians else "bare_loop"
    prefix = "" if measured == "penstock" else f"{measured}_"
    ratios = {}
    for name in medians.keys() - {measured}:
        label = f"{prefix}vs_{name}"
        ratios[label] = round(medians[measured]["items_per_s"] / medians[name]["items_per_s"], 3)
        ratios[f"{label}_cpu"] = round(_cost(medians[name]) / _cost(medians[measured]), 3)
    return dict(sorted(ratios.items()))


def _cost(row: dict[str, float]) -> float:
    return row["cpu_us_per_item"] + row.get("server_cpu_us_per_item", 0.0)


def _candidates() -> list[Candidate]:
    many = 40_000 if SHORT else 200_000
    here, loops = Path(sys.executable), PEERS / "bare_loops.py"
    candidates = [Candidate("bare_loop", here, loops, "fastest", many)]
    if OURS.exists():
        candidates.insert(0, Candidate("penstock", here, OURS, "one", many))
    python = _peers()
    if python is None:
        return candidates
    dlt, airbyte, share = PEERS / "dlt_pipeline.py", PEERS / "airbyte_source.py", 4 if SHORT else 1
    return [
        *candidates,
        Candidate("naive_loop", python, loops, "naive", many),
        Candidate("dlt_best", python, dlt, "best", 60_000 // share, lambda n: harvest_api.windows(n, SLICES)),
        Candidate("dlt_default", python, dlt, "default", 12_000 // share, lambda n: harvest_api.windows(n, 1)),
        Candidate("airbyte", python, airbyte, "one", 24_000 // share, stores=False),
        Candidate("airbyte_sliced", python, airbyte, "sliced", 24_000 // share, stores=False),
    ]


def _peers() -> Path | None:
    """The interpreter of the peers' own environment, made at the first run and again when the versions change."""
    wanted = (PEERS / "requirements.txt").read_text()
    home = PEERS / ".venv"
    stamp, python = home / "installed.txt", home / "bin" / "python"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"]
    for command in ([sys.executable, "-m", "venv", "--clear", str(home)], install):
        done = subprocess.run(command, cwd=PEERS, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            sys.stderr.write(f"the peers could not be installed and are left out: {' '.join(reason)}\n")
            return None
    stamp.write_text(wanted)
    return python


def _place(stack: ExitStack) -> Place:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=_disk())))
    directory.chmod(0o755)  # the server's own account must get in
    server = EmbeddedPostgres(directory / "postgres", settings={"max_wal_size": "4GB"})
    server.start()
    stack.callback(server.stop)
    environment = {"PYTHONPATH": os.pathsep.join([str(HERE.parent / "src"), str(HERE.parent)])}
    if OURS.exists():
        environment["PENSTOCK_REDIS_URL"] = stack.enter_context(servers.redis())
    source = stack.enter_context(harvest_api.running(2_000_000))
    return Place(source, server.url, directory, environment)


def _disk() -> str | None:
    """The records must reach a disk; the usual place for temporary files may be memory."""
    return os.environ.get("BENCH_DIRECTORY")


# --- one candidate, once -----------------------------------------------------------------------------------
def _measure(candidate: Candidate, place: Place) -> dict[str, float]:
    place.source.forget()
    with _target(candidate, place) as target, _server_cpu(place.database_url) as spent_by_server:
        said, peak = _finish(candidate.command(place.source.url, target), place.environment)
    if said["items"] != candidate.items:
        raise RuntimeError(f"{candidate.name} harvested {said['items']} of {candidate.items} records")
    measured = {
        "items_per_s": said["items"] / said["seconds"],
        "cpu_us_per_item": said["cpu"] / said["items"] * 1e6,
        "peak_mb": peak,
        "pages_again": place.source.counts()["pages_again"],
    }
    if candidate.stores:
        measured["server_cpu_us_per_item"] = spent_by_server[0] / said["items"] * 1e6
    return measured


@contextmanager
def _target(candidate: Candidate, place: Place) -> Iterator[str]:
    """A new database, or a file for those who store nothing; gone afterwards, with nothing left to be written."""
    if not candidate.stores:
        file = place.directory / "messages"
        yield str(file)
        file.unlink()
        return
    name = f"bench_{candidate.name}"
    with psycopg.connect(place.database_url, autocommit=True) as connection:
        connection.execute(f"create database {name}")
        connection.execute("checkpoint")
        yield place.database_url.replace("/postgres?", f"/{name}?")
        connection.execute(f"drop database {name} with (force)")
        connection.execute("checkpoint")


@contextmanager
def _server_cpu(database_url: str) -> Iterator[list[float]]:
    """CPU seconds of all the server's processes, whether they ended meanwhile or not."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        postmaster = psutil.Process(connection.info.backend_pid).parent()
        if postmaster is None:
            raise RuntimeError("the server is gone")
        spent: list[float] = []
        before = _cpu_of(postmaster)
        yield spent
        spent.append(_cpu_of(postmaster) - before)


def _cpu_of(postmaster: psutil.Process) -> float:
    total = sum(postmaster.cpu_times()[:4])  # its own and that of children that ended
    for child in postmaster.children():
        try:
            total += sum(child.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return total


def _finish(command: list[str], environment: dict[str, str]) -> tuple[dict[str, Any], float]:
    """What the program said, and the most memory that it and its children had, in MB; what they share counts once."""
    with tempfile.TemporaryFile("w+") as complaints:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=complaints, text=True
        )
        peak = [0.0]
        watcher = threading.Thread(target=_watch_memory, args=(process, peak))
        watcher.start()
        output, _ = process.communicate()
        watcher.join()
        if process.returncode:
            complaints.seek(0)
            raise RuntimeError(f"{' '.join(command[1:3])} failed: {complaints.read()[-2000:]}")
    return json.loads(output.splitlines()[-1]), peak[0]


def _watch_memory(process: "subprocess.Popen[str]", peak: list[float]) -> None:
    while process.poll() is None:
        try:
            root = psutil.Process(process.pid)
            used = root.memory_info().rss
            used += sum(child.memory_full_info().uss for child in root.children(recursive=True))
        except psutil.NoSuchProcess:
            continue
        peak[0] = max(peak[0], used / 1e6)
        time.sleep(0.1)


if __name__ == "__main__":
    begun = time.monotonic()
    sys.stdout.write(json.dumps(run(), indent=2) + "\n")
    sys.stderr.write(f"{time.monotonic() - begun:.0f} s\n")
