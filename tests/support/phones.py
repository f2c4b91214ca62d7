"""A phone, as its makers would write it from the protocol's page: plain HTTP, and patience."""

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self
from uuid import uuid4

import httpx

from tests.support.films import Film, box

QUANTUM = 256 * 1024
_PASSING = (408, 429, 500, 502, 503, 504)


@dataclass(frozen=True)
class Recording:
    """A film that nobody else has."""

    content: bytes = field(repr=False)
    name: str = "holiday.mp4"
    content_type: str = "video/mp4"

    @property
    def md5(self) -> str:
        return hashlib.md5(self.content, usedforsecurity=False).hexdigest()

    @property
    def size(self) -> int:
        return len(self.content)


def recorded(size: int = 3 * QUANTUM, seconds: float = 3) -> Recording:
    """A film of about this many bytes; what fills it up is no part of what is seen."""
    film = Film(seconds).mp4()
    return Recording(film + box(b"free", os.urandom(max(16, size - len(film) - 8))), f"{uuid4()}.mp4")


class Phone:
    """One user's. It knows one server, and no key of any bucket."""

    def __init__(self, address: str, token: str) -> None:
        self.http = httpx.Client(timeout=20, trust_env=False)
        self._address = f"{address}/api/v1"
        self._who = {"Authorization": f"Bearer {token}"}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def wish(self, film: Recording, **changes: Any) -> dict[str, Any]:
        told = {
            "filename": film.name, "size_bytes": film.size, "content_type": film.content_type,
            "content_md5_hex": film.md5, "duration_seconds": 3,
        }  # fmt: skip
        return told | changes

    def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        return self.http.request(method, self._address + path, headers=self._who, **more)

    def announce(self, film: Recording, **changes: Any) -> dict[str, Any]:
        answer = self.call("POST", "/direct-uploads", json=self.wish(film, **changes))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def look(self, upload_id: str) -> dict[str, Any]:
        answer = self.call("GET", f"/direct-uploads/{upload_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def video(self, video_id: str) -> dict[str, Any]:
        return dict(self.call("GET", f"/videos/{video_id}").json())

    def begin(self, opened: dict[str, Any]) -> str:
        """The address of a session."""
        answer = self.start(opened)
        assert answer.status_code == 201, answer.text
        return answer.headers["location"]

    def start(self, opened: dict[str, Any]) -> httpx.Response:
        return self.http.post(opened["resumable_init_url"], headers=opened["resumable_init_headers"])

    def put(self, session: str, content: bytes, start: int = 0, end: int | None = None) -> httpx.Response:
        """Bytes of the film from `start` up to `end`."""
        piece = content[start:end]
        span = f"bytes {start}-{start + len(piece) - 1}/{len(content)}"
        return self.http.put(session, content=piece, headers={"content-range": span})

    def asked(self, session: str, total: int) -> httpx.Response:
        return self.http.put(session, headers={"content-range": f"bytes */{total}"})

    def send(self, film: Recording, **changes: Any) -> str:
        """All of it in one piece, when nothing goes wrong; the upload's id."""
        opened = self.announce(film, **changes)
        assert self.put(self.begin(opened), film.content).status_code == 200
        return str(opened["upload_id"])

    def parts(self, upload_id: str, *numbers: int) -> dict[str, Any]:
        """What a bucket that takes parts has, and where others go."""
        wanted = {"numbers": list(numbers)} if numbers else {}
        answer = self.call("POST", f"/direct-uploads/{upload_id}/parts", json=wanted)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def put_parts(self, offer: dict[str, Any], content: bytes) -> None:
        for each in offer["addresses"]:
            piece = content[(each["number"] - 1) * offer["part_bytes"] : each["number"] * offer["part_bytes"]]
            answer = self.http.put(each["url"], content=piece, headers=each["headers"])
            assert answer.status_code == 200, answer.text

    def complete(self, upload_id: str) -> httpx.Response:
        return self.call("POST", f"/direct-uploads/{upload_id}/complete")


def offset_in(answer: httpx.Response) -> int:
    """How far the bucket is, of a 308."""
    assert answer.status_code == 308, (answer.status_code, answer.text)
    said = answer.headers.get("range")
    return int(said.rpartition("-")[2]) + 1 if said else 0


class PatientPhone(Phone):
    """Goes on after whatever happens, by the table of the protocol's page. Some forget their session over it."""

    def __init__(
        self, address: str, token: str, seconds: float = 60, forgets: Callable[[], bool] | None = None
    ) -> None:
        super().__init__(address, token)
        self._forgets = forgets or (lambda: False)
        self._deadline = time.monotonic() + seconds
        self.troubles: list[str] = []

    def deliver(self, film: Recording, chunk: int = QUANTUM) -> str:
        """Until Penstock says that it is complete; the upload's id."""
        session = None
        while True:
            assert time.monotonic() < self._deadline, f"it never came to an end: {self.troubles[-10:]}"
            try:
                opened = self._announced(film)
                upload_id = str(opened["upload_id"])
                if opened["already_completed"]:
                    return upload_id
                session = session or self._begun(opened)
                self._bring(session, film, chunk)
                if self._is_complete(upload_id):
                    return upload_id
                session = None
            except (httpx.TransportError, _NotNow) as trouble:
                self.troubles.append(type(trouble).__name__ + str(trouble)[:60])
                session = None if self._forgets() else session
                time.sleep(0.05)
            except _Gone:
                self.troubles.append("gone")
                session = None

    def _announced(self, film: Recording) -> dict[str, Any]:
        answer = self.call("POST", "/direct-uploads", json=self.wish(film))
        if answer.status_code in _PASSING:
            raise _NotNow("announcing")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def _begun(self, opened: dict[str, Any]) -> str:
        answer = self.start(opened)
        if answer.status_code != 201:
            raise _NotNow("beginning") if answer.status_code in _PASSING else _Gone
        return answer.headers["location"]

    def _bring(self, session: str, film: Recording, chunk: int) -> None:
        """All of it; that the object exists is for Penstock to judge."""
        answer = self.asked(session, film.size)
        while answer.status_code == 308:
            start = offset_in(answer)
            answer = self.put(session, film.content, start, min(start + chunk, film.size))
        if answer.status_code in _PASSING:
            raise _NotNow("sending")
        if answer.status_code in (404, 410):
            raise _Gone
        assert answer.status_code in (200, 412), answer.text

    def _is_complete(self, upload_id: str) -> bool:
        """False: it has failed, and may be announced again."""
        while True:
            answer = self.call("GET", f"/direct-uploads/{upload_id}")
            if answer.status_code in _PASSING:
                raise _NotNow("looking")
            found = answer.json()
            if found["status"] in ("completed", "failed"):
                return bool(found["status"] == "completed")
            assert time.monotonic() < self._deadline, "nobody told Penstock"
            time.sleep(0.05)


class _NotNow(Exception):
    """Try again."""


class _Gone(Exception):
    """Begin a new session."""
