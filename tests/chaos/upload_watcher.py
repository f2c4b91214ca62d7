"""Looks on while uploads are under fire: no offset is ahead of its bytes, goes back, or covers a wrong byte."""

import contextlib
import http.client
import random
import threading
from typing import Any, Self

import psycopg
from psycopg.rows import dict_row

from tests.support.cutting_proxy import CuttingProxy
from tests.support.edge import token
from tests.support.gateway import Gateway
from tests.support.tus import UPLOADS, Tus

_PAUSE = 0.02


class Watcher:
    """A thread of its own; what it found wrong is raised at the end of the `with`."""

    def __init__(self, server: Gateway, network: CuttingProxy, sources: dict[str, bytes]) -> None:
        self._server = server
        self._caller = Tus(network.address, token(seconds=7200))
        self._sources = sources
        self._seen: dict[str, int] = {}
        self._stop = threading.Event()
        self._wrong: list[str] = []
        self._looks = self._answers = 0
        self._random = random.Random(1)
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        if kind is None:
            assert self._wrong == []
            assert self._looks > 0
            assert self._answers > 0

    def counted(self) -> dict[str, int]:
        return {"looks at the offsets": self._looks, "answers to HEAD": self._answers}

    def _watch(self) -> None:
        while not self._stop.wait(_PAUSE):
            try:
                rows = self._rows()
            except psycopg.OperationalError:
                continue
            for row in rows:
                self._look(row["upload_id"], row["filename"], int(row["received"]), "the database")
            self._looks += 1
            going_on = [row for row in rows if row["status"] == "UPLOADING"]
            if going_on:
                self._ask(self._random.choice(going_on))

    def _rows(self) -> list[dict[str, Any]]:
        """By a connection of its own: that of a server ends when the server does."""
        with psycopg.connect(self._server.database_url, row_factory=dict_row) as connection:
            return connection.execute("select upload_id, filename, received, status from tus_uploads").fetchall()

    def _ask(self, row: dict[str, Any]) -> None:
        """What a client would be told."""
        with contextlib.suppress(OSError, http.client.HTTPException):  # the network is being cut
            answer = self._caller.head(f"{UPLOADS}/{row['upload_id']}")
            if answer.status == 200:
                self._answers += 1
                self._look(row["upload_id"], row["filename"], answer.offset, "an answer")

    def _look(self, upload_id: str, name: str, offset: int, who: str) -> None:
        """Only what is new since the last look is read; the whole file is compared in the end."""
        before = self._seen.get(upload_id, 0)
        if offset < before:
            self._wrong.append(f"{who} went back from {before} to {offset} for {name}")
        if offset <= before:
            return
        self._seen[upload_id] = offset
        file = self._server.file_of(f"{UPLOADS}/{upload_id}")
        with file.open("rb") if file else contextlib.nullcontext() as data:
            kept = b""
            if data is not None:
                data.seek(before)
                kept = data.read(offset - before)
        if kept != self._sources[name][before:offset]:
            self._wrong.append(f"{who} promised {offset} bytes of {name}; from {before} on they are not there")
