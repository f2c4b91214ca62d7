"""Uploads: one of 1 GiB in 8 MiB requests, three at once, and 2,000 small ones, over loopback to disk.

Beside ours run a bare endpoint of the same HTTP server, which writes each body to a file and syncs it as we do but
promises nothing else; the same without the sync (`unsynced`: what syncing costs); `@tus/server` with its file store,
which never syncs, if Node is here; and tusd if it is on the PATH. The candidates take turns, and the medians count,
as disks and neighbours make noise.
"""

import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil

from bench import servers
from penstock.kernel.identity import Caller, Role, issue_token

MiB = 1 << 20
ROUNDS = 3
LARGE, AT_ONCE, CHUNK = 1024 * MiB, 256 * MiB, 8 * MiB
SMALL, SMALL_BYTES, SMALL_AT_ONCE = 2000, 16 * 1024, 16
SECRET = "a secret of at least thirty-two bytes"
PEERS = Path(__file__).parent / "peers"
_METADATA = "filename Yi5wZGY=,filetype YXBwbGljYXRpb24vcGRm"


@dataclass(frozen=True)
class Candidate:
    """A running server that speaks tus, or in the bare case as much of it as the clients here need."""

    name: str
    port: int
    path: str
    pid: int
    headers: str = ""


class Connection:
    """The cheapest client there is, so that the servers are measured and not it."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        self._socket = socket.create_connection(("127.0.0.1", candidate.port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def upload(self, size: int, chunk: bytes) -> None:
        where = self._create(size)
        for offset in range(0, size, len(chunk)):
            self._patch(where, offset, memoryview(chunk)[: size - offset])

    def _create(self, size: int) -> str:
        head = f"POST {self._candidate.path} HTTP/1.1\r\nUpload-Length: {size}\r\nUpload-Metadata: {_METADATA}\r\n"
        self._socket.sendall(self._with_headers(head, 0))
        answer = self._answer(b"201")
        location = next(line for line in answer.split("\r\n") if line.lower().startswith("location:"))
        return "/" + location.split(":", 1)[1].strip().removeprefix("http://").partition("/")[2]

    def _patch(self, where: str, offset: int, body: memoryview) -> None:
        head = f"PATCH {where} HTTP/1.1\r\nUpload-Offset: {offset}\r\nContent-Type: application/offset+octet-stream\r\n"
        self._socket.sendall(self._with_headers(head, len(body)))
        self._socket.sendall(body)
        self._answer(b"204")

    def _with_headers(self, head: str, length: int) -> bytes:
        common = f"Host: 127.0.0.1:{self._candidate.port}\r\nTus-Resumable: 1.0.0\r\nContent-Length: {length}\r\n"
        return f"{head}{common}{self._candidate.headers}\r\n".encode()

    def _answer(self, expected: bytes) -> str:
        head = self._until_blank_line()
        if b"chunked" in head.lower():  # an empty body, said at length
            self._until_blank_line()
        if not head.startswith(b"HTTP/1.1 " + expected):
            raise RuntimeError(f"{self._candidate.name}: {head[:200]!r} {self._buffer[:300]!r}")
        return head.decode()

    def _until_blank_line(self) -> bytes:
        while b"\r\n\r\n" not in self._buffer:
            received = self._socket.recv(65536)
            if not received:
                raise RuntimeError(f"{self._candidate.name} closed the connection")
            self._buffer += received
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        return head

    def close(self) -> None:
        self._socket.close()


def _in_threads(count: int, work: Callable[[], None]) -> float:
    """Seconds until all are done; the first failure is raised."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as failure:  # noqa: BLE001  told to the main thread below
            failures.append(failure)

    threads = [threading.Thread(target=run) for _ in range(count)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return time.monotonic() - began


def _one_upload(candidate: Candidate, size: int, chunk: bytes) -> None:
    connection = Connection(candidate)
    connection.upload(size, chunk)
    connection.close()


def _small_uploads(candidate: Candidate, chunk: bytes) -> None:
    connection = Connection(candidate)
    for _ in range(SMALL // SMALL_AT_ONCE):
        connection.upload(len(chunk), chunk)
    connection.close()


def _measure(candidate: Candidate) -> dict[str, float]:
    chunk, small = os.urandom(CHUNK), os.urandom(SMALL_BYTES)
    process = psutil.Process(candidate.pid)
    cpu = sum(process.cpu_times()[:2])
    one = _in_threads(1, lambda: _one_upload(candidate, LARGE, chunk))
    spent = sum(process.cpu_times()[:2]) - cpu
    peak = _peak_mb(candidate.pid)
    three = _in_threads(3, lambda: _one_upload(candidate, AT_ONCE, chunk))
    many = _in_threads(SMALL_AT_ONCE, lambda: _small_uploads(candidate, small))
    return {
        "one_mb_s": LARGE / one / 1e6,
        "cpu_s_per_gib": spent * 1024 * MiB / LARGE,
        "peak_mb": peak,
        "three_mb_s": 3 * AT_ONCE / three / 1e6,
        "small_per_s": SMALL // SMALL_AT_ONCE * SMALL_AT_ONCE / many,
    }


def _peak_mb(pid: int) -> float:
    """The most memory it ever had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return float(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def run() -> dict[str, Any]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=_disk())))
        candidates = [stack.enter_context(_ours(directory))]
        candidates += [stack.enter_context(_bare(directory, name)) for name in ("bare", "unsynced")]
        candidates += [
            peer for peer in (stack.enter_context(_node(directory)), stack.enter_context(_tusd(directory))) if peer
        ]
        found: dict[str, list[dict[str, float]]] = {candidate.name: [] for candidate in candidates}
        for _ in range(ROUNDS):
            for candidate in candidates:
                found[candidate.name].append(_measure(candidate))
                _empty(directory / candidate.name)
    medians = {
        name: {key: statistics.median(r[key] for r in rounds) for key in rounds[0]} for name, rounds in found.items()
    }
    return {"name": "uploads", "ratios": _ratios(medians), "figures": _figures(medians)}


def _ratios(medians: dict[str, dict[str, float]]) -> dict[str, float]:
    ours, ratios = medians["penstock"], {}
    for name in medians.keys() - {"penstock"}:
        label = "vs_raw" if name == "bare" else f"vs_{name}"
        for key, what in (("one_mb_s", "one"), ("three_mb_s", "three"), ("small_per_s", "small")):
            ratios[f"{label}_{what}"] = round(ours[key] / medians[name][key], 3)
    return dict(sorted(ratios.items()))


def _figures(medians: dict[str, dict[str, float]]) -> dict[str, float]:
    return {f"{name}_{key}": round(value, 2) for name, row in sorted(medians.items()) for key, value in row.items()}


def _disk() -> str | None:
    """Uploads must be measured on a disk; the usual place for temporary files may be memory."""
    return os.environ.get("BENCH_DIRECTORY")


def _empty(directory: Path) -> None:
    for file in directory.iterdir():
        if file.is_file():
            file.unlink()


# --- the candidates, each in a process of its own ----------------------------------------------------------
@contextmanager
def _ours(directory: Path) -> Iterator[Candidate]:
    home, port = directory / "penstock", servers.free_port()
    home.mkdir()
    with servers.postgres() as database_url, servers.redis() as redis_url:
        environment = {
            "PENSTOCK_DATABASE_URL": database_url, "PENSTOCK_REDIS_URL": redis_url, "PENSTOCK_JWT_SECRET": SECRET,
            "GW_UPLOAD_RATE_PER_SEC": "1000000", "GW_UPLOAD_BURST": "1000000",  # counted, but never reached
            "PENSTOCK_HOME": str(directory), "GW_TUS_UPLOAD_DIR": str(home), "PENSTOCK_PORT": str(port),
            "PENSTOCK_GRPC_PORT": str(servers.free_port()),
        }  # fmt: skip
        token = issue_token(SECRET, Caller("bench", "m", Role.UPLOADER), timedelta(hours=1))
        with servers.process([sys.executable, "-m", "penstock", "serve"], port, environment) as pid:
            yield Candidate("penstock", port, "/api/v1/uploads", pid, f"Authorization: Bearer {token}\r\n")


@contextmanager
def _bare(directory: Path, name: str) -> Iterator[Candidate]:
    home, port = directory / name, servers.free_port()
    home.mkdir()
    with servers.process([sys.executable, __file__, name, str(port), str(home)], port) as pid:
        yield Candidate(name, port, "/files", pid)


@contextmanager
def _node(directory: Path) -> Iterator[Candidate | None]:
    if not (shutil.which("node") and shutil.which("npm")):
        sys.stderr.write("Node and npm are not here: @tus/server is left out\n")
        yield None
        return
    if not (PEERS / "node_modules").exists():
        subprocess.run(["npm", "ci", "--silent"], cwd=PEERS, check=True)
    home, port = directory / "tus_node_server", servers.free_port()
    home.mkdir()
    with servers.process(["node", str(PEERS / "tus_server.mjs"), str(port), str(home)], port) as pid:
        yield Candidate("tus_node_server", port, "/files", pid)


@contextmanager
def _tusd(directory: Path) -> Iterator[Candidate | None]:
    program = shutil.which("tusd")
    if program is None:
        yield None
        return
    home, port = directory / "tusd", servers.free_port()
    home.mkdir()
    command = [program, "-host", "127.0.0.1", "-port", str(port), "-upload-dir", str(home)]
    with servers.process(command, port) as pid:
        yield Candidate("tusd", port, "/files/", pid)


async def _serve_bare(port: int, directory: Path, *, synced: bool) -> None:
    """POST makes a name; PATCH streams the body to the end of its file, in the thread pool, and syncs it."""
    from granian.constants import Interfaces
    from granian.server.embed import Server

    count = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal count
        if scope["type"] != "http":
            return
        if scope["method"] == "POST":
            count += 1
            headers = [(b"location", f"/files/{count}".encode())]
            await send({"type": "http.response.start", "status": 201, "headers": headers})
        else:
            await _append(directory / scope["path"].rpartition("/")[2], receive)
            await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _append(path: Path, receive: Any) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        more, gathered, size = True, [], 0
        while more:
            message = await receive()
            more = message.get("more_body", False)
            gathered.append(message.get("body", b""))
            size += len(gathered[-1])
            if size >= MiB:
                await asyncio.to_thread(os.writev, descriptor, gathered)
                gathered, size = [], 0
        await asyncio.to_thread(lambda: (os.writev(descriptor, gathered), os.fdatasync(descriptor) if synced else None))
        os.close(descriptor)

    server = Server(app, port=port, interface=Interfaces.ASGINL, websockets=False, log_enabled=False)
    await server.serve()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["bare" | "unsynced" as name, port, directory]:
            import uvloop

            uvloop.run(_serve_bare(int(port), Path(directory), synced=name == "bare"))
        case _:
            sys.stdout.write(json.dumps(run(), indent=2) + "\n")
