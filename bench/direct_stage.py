"""What the benchmark of direct uploads runs against: one `penstock serve`, the embedded bucket, and what is bare.

Run as a program it is one of the bare ones: `echo` answers gRPC calls of our messages with an answer of our size and
does nothing else; `store` takes HTTP bodies, appends each to its file and syncs it, and answers POST with some JSON.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg

from bench import servers
from penstock.embedded.bucket.keys import ACCOUNT_FILE, PUSHER, Keys, prepare_keys
from penstock.kernel.identity import Caller, Role, issue_token

SECRET = "a secret of at least thirty-two bytes"
BUCKET = "penstock-uploads"
MiB = 1 << 20
_PLENTY = "1000000000"


@dataclass(frozen=True)
class Stage:
    """Everything that runs, as clients see it."""

    http: int
    grpc: int
    bucket: int
    echo: int
    store: int
    pids: dict[str, int]  # of serve, bucket, echo and store
    database_url: str
    directory: Path

    @property
    def callback(self) -> str:
        return f"http://127.0.0.1:{self.http}/_/gcs/callback"

    @property
    def bucket_address(self) -> str:
        return f"http://127.0.0.1:{self.bucket}"

    def keys(self) -> Keys:
        return prepare_keys(self.directory / "bucket", self.bucket_address)

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(query, values).fetchall()

    def cpu(self) -> dict[str, float]:
        """Seconds of processor that each has used so far."""
        used = {name: _used(psutil.Process(pid)) for name, pid in self.pids.items()}
        with psycopg.connect(self.database_url) as connection:
            backend = psutil.Process(connection.info.backend_pid)
            server = backend.parent()
            used["postgres"] = sum(_used(each) for each in [server, *server.children()] if each.pid != backend.pid)
        return used


def _used(process: psutil.Process) -> float:
    try:
        return float(sum(process.cpu_times()[:2]))
    except psutil.NoSuchProcess:
        return 0.0


def token_of(user: int) -> str:
    return issue_token(SECRET, Caller(f"phone-{user}", "m", Role.UPLOADER), timedelta(hours=1))


@contextmanager
def stage() -> Iterator[Stage]:
    """Disks are measured, and the usual place for temporary files may be memory: BENCH_DIRECTORY names another."""
    with ExitStack() as stack:
        chosen = os.environ.get("BENCH_DIRECTORY")
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-bench-", dir=chosen)))
        database_url = stack.enter_context(servers.postgres())
        redis_url = stack.enter_context(servers.redis())
        made = Stage(*servers.free_ports(5), {}, database_url, directory)
        environment = _environment(made, redis_url)
        bare = [sys.executable, __file__]
        commands = {
            "bucket": (_role("bucket"), made.bucket),
            "serve": (_role("serve"), made.http),
            "echo": ([*bare, "echo", str(made.echo)], made.echo),
            "store": ([*bare, "store", str(made.store), str(directory)], made.store),
        }
        for name, (command, port) in commands.items():
            made.pids[name] = stack.enter_context(servers.process(command, port, environment))
        servers.until_listening(made.grpc)
        yield made


def _role(name: str) -> list[str]:
    return [sys.executable, "-m", "penstock", name]


def _environment(made: Stage, redis_url: str) -> dict[str, str]:
    home = made.directory
    return {
        "PENSTOCK_DATABASE_URL": made.database_url, "PENSTOCK_REDIS_URL": redis_url, "PENSTOCK_JWT_SECRET": SECRET,
        "PENSTOCK_HOME": str(home), "GW_TUS_UPLOAD_DIR": str(home / "tus"), "PENSTOCK_PORT": str(made.http),
        "PENSTOCK_GRPC_PORT": str(made.grpc), "PENSTOCK_BUCKET_PORT": str(made.bucket), "BUCKET_NAME": BUCKET,
        "BUCKET_DIRECTORY": str(home / "bucket"), "BUCKET_PUSH_URL": made.callback,
        "BUCKET_PUSH_AUDIENCE": made.callback, "BUCKET_PUSH_ISSUER": made.bucket_address,
        "DIRECT_BUCKET_URL": f"gs://{BUCKET}", "DIRECT_ENDPOINT": made.bucket_address,
        "DIRECT_SERVICE_ACCOUNT_FILE": str(home / "bucket" / ACCOUNT_FILE),
        "DIRECT_CALLBACK_AUDIENCE": made.callback, "DIRECT_CALLBACK_EMAIL": PUSHER,
        "DIRECT_CALLBACK_ISSUERS": json.dumps([made.bucket_address]),
        "DIRECT_CALLBACK_JWKS_URL": f"{made.bucket_address}/oauth2/v3/certs",
        "GW_API_RATE_PER_SEC": _PLENTY, "GW_API_BURST": _PLENTY,  # the limit is counted, but never reached
    }  # fmt: skip


# --- the bare ones, each in a process of its own -----------------------------------------------------------
async def _echo(port: int) -> None:
    import grpc

    from penstock.rpc.video.v1 import upload_pb2 as wire

    async def answer(asked: Any, _context: Any) -> Any:
        return wire.InitResumableUploadResponse(
            upload_id="u" * 36, bucket=BUCKET, object_name=asked.content_md5_hex.rjust(76, "o"),
            resumable_init_url="h" * 1000, expires_at_unixms=1_800_000_000_000,
        )  # fmt: skip

    handler = grpc.unary_unary_rpc_method_handler(
        answer, wire.InitResumableUploadRequest.FromString, wire.InitResumableUploadResponse.SerializeToString
    )
    server = grpc.aio.server()
    service = {"InitResumableUpload": handler}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("video.v1.UploadService", service),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


async def _store(port: int, directory: Path) -> None:
    from granian.constants import Interfaces
    from granian.server.embed import Server

    answer = json.dumps({"url": "h" * 1500}).encode()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        is_file = scope["method"] == "PUT"
        await _append(directory / f"bare-{scope['path'].rpartition('/')[2]}" if is_file else None, receive)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    await Server(app, port=port, interface=Interfaces.ASGINL, websockets=False, log_enabled=False).serve()


async def _append(path: Path | None, receive: Any) -> None:
    """To the end of the file, in the thread pool; synced when the body ends."""
    more, gathered, size = True, [], 0
    descriptor = -1 if path is None else os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    while more:
        message = await receive()
        more = message.get("more_body", False)
        gathered.append(message.get("body", b""))
        size += len(gathered[-1])
        if path is not None and size >= MiB:
            await asyncio.to_thread(os.writev, descriptor, gathered)
            gathered, size = [], 0
    if path is not None:
        await asyncio.to_thread(lambda: (os.writev(descriptor, gathered), os.fsync(descriptor)))
        os.close(descriptor)


if __name__ == "__main__":
    import uvloop

    match sys.argv[1:]:
        case ["echo", port]:
            uvloop.run(_echo(int(port)))
        case ["store", port, directory]:
            uvloop.run(_store(int(port), Path(directory)))
