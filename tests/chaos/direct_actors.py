"""The processes that get killed: one who announces a file, one who takes a notification, one who looks after an upload,
and the real worker. DIRECT_DOES says which; the bucket is a directory that all share."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace.export import ConsoleSpanExporter

import penstock.worker.working  # noqa: F401  here, so that a child that is forked need not
from penstock.bootstrap import Parts, load_settings, started
from penstock.kernel import leases
from penstock.kernel.identity import Caller, Role
from penstock.kernel.telemetry import Masker, configure_tracing
from penstock.uploads.direct.attending import DUE, attend_one
from penstock.uploads.direct.callback import receive
from penstock.uploads.direct.desk import DirectDesk
from penstock.uploads.direct.opening import Wish, open_upload
from penstock.worker import run_worker
from tests.support.shelf import SECRET, FileShelf, md5_of

PHONE = Caller("5a0c7f6e-1111-4222-8333-444455556666", "m-1", Role.UPLOADER)
TROUBLE = "trouble"  # files with this in their name cannot become anything


def content_of(name: str) -> bytes:
    return f"the film {name}".encode() * 50


def wish_of(name: str) -> Wish:
    content = content_of(name)
    return Wish(f"{name}.mp4", len(content), "video/mp4", md5_of(content), 7)


def desk_of(parts: Parts) -> DirectDesk:
    shelf = FileShelf(Path(os.environ["DIRECT_SHELF"]))

    async def become(row: Mapping[str, Any]) -> None:
        if TROUBLE in row["original_filename"]:
            session = f"https://shelf/x?name=y&upload_id={SECRET}"
            raise ValueError(f"PUT {session} after https://shelf/x?X-Goog-Signature={SECRET}&X-Goog-Date=1 failed")
        async with parts.database.transaction() as tx:
            await tx.execute("insert into chaos_heard (entity, step) values (%s, 1)", (str(row["upload_id"]),))

    return DirectDesk(
        parts.database, shelf, parts.settings.direct, parts.clock, parts.queue, parts.worker_id, {"video": become}
    )


async def _attend(desk: DirectDesk, name: str) -> None:
    mine = replace(DUE, ready=f"original_filename = '{name}.mp4'")
    async with desk.database.transaction() as tx:
        [lease] = await leases.claim(tx, mine, owner=desk.owner, ttl=desk.settings.lease_seconds)
    await attend_one(desk, lease)


async def _do(parts: Parts, does: str, name: str) -> None:
    if does == "open":
        await open_upload(parts.direct, PHONE, wish_of(name))
    elif does == "receive":
        await receive(parts.direct, await asyncio.to_thread(Path(os.environ["DIRECT_BODY"]).read_bytes))
    elif does == "attend":
        await _attend(parts.direct, name)
    else:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await run_worker(parts, stop)


async def main() -> None:
    with Path(os.environ["DIRECT_TRACE"]).open("a") as out:  # noqa: ASYNC230  nobody else runs yet
        async with started(load_settings(), role="executor") as parts:
            exporter = ConsoleSpanExporter(out=out)
            settings = parts.settings.telemetry
            tracing = configure_tracing("worker", parts.worker_id, settings, masker=Masker(), exporter=exporter)
            vars(parts)["direct"] = desk_of(parts)
            await _do(parts, os.environ["DIRECT_DOES"], os.environ.get("DIRECT_NAME", ""))
            tracing.close()
    sys.stdout.write("answered\n")


if __name__ == "__main__":
    asyncio.run(main())
