"""The bucket on a port, until told to stop: then senders are told to come again, and what has come is kept."""

import asyncio
import contextlib
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import structlog
from granian.server.embed import Server

from penstock.embedded.bucket.app import BucketApp
from penstock.embedded.bucket.body import Receive
from penstock.embedded.bucket.faults import Faults
from penstock.embedded.bucket.keys import SIGNER, prepare_keys
from penstock.embedded.bucket.ledger import Ledger
from penstock.embedded.bucket.place import BucketPlace
from penstock.embedded.bucket.pushing import Pusher
from penstock.embedded.bucket.quarantine import Quarantine
from penstock.embedded.bucket.requests import Send
from penstock.embedded.bucket.sessions import Sessions
from penstock.embedded.bucket.settings import BucketSettings
from penstock.embedded.bucket.shelf import Shelf
from penstock.embedded.bucket.signatures import Signatures
from penstock.embedded.bucket.threads import ITSELF, FairWork, OwnedWork, work_for
from penstock.embedded.bucket.tokens import Tokens
from penstock.embedded.ports import reachable
from penstock.kernel.backoff import pause
from penstock.kernel.clock import Clock, SystemClock
from penstock.kernel.connections import ConnectionLimiter, limits_of, places_for
from penstock.kernel.listening import http_server, refuse_taken_port
from penstock.kernel.runtime import RuntimeSettings
from penstock.kernel.trusted_peers import TrustedPeers

log = structlog.get_logger(__name__)
_SHARE, _PLACES = 0.8, 4096  # of the process's descriptors
_SECONDS_BETWEEN_SWEEPS = 600.0


def bucket_directory(settings: BucketSettings, home: Path) -> Path:
    return settings.directory or home.resolve() / "bucket"


class BucketServer:
    """One run on one directory."""

    def __init__(
        self, settings: BucketSettings, runtime: RuntimeSettings, *, clock: Clock | None = None,
        faults: Faults | None = None,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._runtime = runtime
        self._clock = clock or SystemClock()
        self._faults = faults or Faults()
        self.address = f"http://{reachable(runtime.host)}:{runtime.bucket_port}"

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set. A taken port or directory is a sentence."""
        settings, runtime = self._settings, self._runtime
        refuse_taken_port(runtime.host, runtime.bucket_port, "PENSTOCK_BUCKET_PORT")
        directory = bucket_directory(settings, runtime.home)
        shelf = Shelf(directory)
        await asyncio.to_thread(shelf.open)  # takes the directory: nothing of another server's is written before
        fair = FairWork(self._clock)
        work_for(OwnedWork(fair, ITSELF))
        try:
            keys = await asyncio.to_thread(prepare_keys, directory, self.address)
            ledger = Ledger(shelf, self._clock, tells=bool(settings.push_url))
            sessions = Sessions(shelf, ledger, settings, self._clock, self._faults)
            await asyncio.to_thread(_load, shelf, ledger, sessions)
            place = BucketPlace(
                settings, shelf, ledger, sessions, Signatures(SIGNER, keys.signer.public_key()),
                Tokens(keys, self.address, self._clock), self._clock, self._faults, fair,
            )  # fmt: skip
            async with asyncio.TaskGroup() as group:
                sweeper = _sweep(sessions, Quarantine(ledger, settings, self._clock), settings, stop)
                background = [group.create_task(sweeper, name="bucket sweep")]
                if settings.push_url:
                    pusher = Pusher(ledger, shelf, settings, self._clock, self._faults)
                    background.append(group.create_task(pusher.run(keys, self.address), name="bucket push"))
                try:
                    await self._serve(BucketApp(place, keys), sessions, stop)
                finally:
                    for task in background:
                        task.cancel()
        finally:
            fair.close()
            shelf.close()

    async def _serve(self, app: BucketApp, sessions: Sessions, stop: asyncio.Event) -> None:
        runtime = self._runtime
        places = places_for(_SHARE, _PLACES)
        limiter = ConnectionLimiter("bucket", runtime.bucket_port, limits_of(runtime, places))
        server = http_server(_Trusting(app, limiter.trusted), runtime.host, runtime.bucket_port, places=places)
        with limiter.running():
            await self._run_server(server, app, sessions, stop)

    async def _run_server(self, server: Server, app: BucketApp, sessions: Sessions, stop: asyncio.Event) -> None:
        runtime = self._runtime
        serving = asyncio.create_task(server.serve(), name="bucket server")
        stopping = asyncio.create_task(stop.wait(), name="bucket stop")
        log.info("bucket.listening", host=runtime.host, port=runtime.bucket_port)
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                server.stop()  # type: ignore[no-untyped-call]  # granian says nothing of its type
                sessions.interrupt()
                await asyncio.wait({serving}, timeout=runtime.shutdown_seconds.total_seconds())
            if not serving.done():
                log.warning("bucket.cut_off", requests=app.cut_off())
                await asyncio.wait({serving}, timeout=1)
            if serving.done():
                serving.result()
        finally:
            stopping.cancel()
        log.info("bucket.stopped")


class _Trusting:
    """Trusts a connection as soon as its sender has shown a right, and says for how long its request is under way."""

    def __init__(self, app: BucketApp, trusted: TrustedPeers) -> None:
        self._app, self._trusted = app, trusted

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        with contextlib.ExitStack() as at_end:

            def note_checked() -> None:
                at_end.enter_context(self._trusted.serving(*scope["client"]))

            await self._app({**scope, "checked": note_checked}, receive, send)


def _load(shelf: Shelf, ledger: Ledger, sessions: Sessions) -> None:
    still_open = sessions.load(ledger.load())
    shelf.keep_only({*ledger.data_files(), *still_open})


async def _sweep(sessions: Sessions, quarantine: Quarantine, settings: BucketSettings, stop: asyncio.Event) -> None:
    while True:
        try:
            if gone := await sessions.expire():
                log.info("bucket.sessions_expired", sessions=gone)
            if gone := await quarantine.expire():
                log.info("bucket.quarantine_emptied", objects=gone)
        except OSError as failure:
            log.warning("bucket.disk_trouble", reason=failure.strerror)
        if await pause(stop, settings.sweep_seconds.total_seconds()):
            return
