"""A client that follows an event stream over a connection of its own, and can come back to another server."""

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import httpx


@dataclass(frozen=True)
class Heard:
    """One event, and when it was here."""

    name: str
    data: dict[str, Any]
    place: str | None
    at: float


def completed(page: int) -> Callable[[Heard], bool]:
    return lambda heard: heard.name == "page_completed" and heard.data["page_no"] == page


class Follower:
    """Hears everything from the moment it is made; `last` is the place that it would come back to."""

    def __init__(self, address: str, path: str, token: str, last: str | None = None) -> None:
        self._client = httpx.Client(timeout=30)
        place = {} if last is None else {"Last-Event-ID": last}
        headers = {"Authorization": f"Bearer {token}", **place}
        request = self._client.build_request("GET", address + path, headers=headers)
        self.answer = self._client.send(request, stream=True)
        assert self.answer.status_code == 200, (self.answer.status_code, self.answer.read())
        self.last = last
        self.broken = False  # the connection ended, the stream did not
        self._heard: queue.Queue[Heard | None] = queue.Queue()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        line = self.answer.extensions["network_stream"].get_extra_info("socket")
        with contextlib.suppress(OSError):  # it may have ended already
            line.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._client.close()

    def hear(self, seconds: float = 20) -> Heard | None:
        """The next event; None when there are no more."""
        try:
            heard = self._heard.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"nothing was heard within {seconds:.0f} s") from None
        if heard is None:
            self._heard.put(None)  # whoever asks again is told again
        elif heard.place is not None:
            self.last = heard.place
        return heard

    def until(self, is_last: Callable[[Heard], bool], *, or_the_end: bool = False) -> list[Heard]:
        """Everything up to an event; without heartbeats."""
        found: list[Heard] = []
        while not (found and is_last(found[-1])):
            heard = self.hear()
            if heard is None:
                assert or_the_end, f"the stream ended after {found[-1:]}"
                break
            if heard.name != "heartbeat":
                found.append(heard)
        return found

    def expect(self, name: str) -> Heard:
        """The next event of this name; others before it are passed over."""
        return self.until(lambda heard: heard.name == name)[-1]

    def rest(self, seconds: float = 20) -> list[Heard]:
        """Everything up to the end of the stream, which must come; without heartbeats."""
        deadline, found = time.monotonic() + seconds, []
        while (heard := self.hear(max(0.0, deadline - time.monotonic()))) is not None:
            if heard.name != "heartbeat":
                found.append(heard)
        return found

    def _listen(self) -> None:
        fields: dict[str, str] = {}
        try:
            for line in self.answer.iter_lines():
                name, _, value = line.partition(": ")
                if name:
                    fields[name] = value
                elif "event" in fields:
                    heard = Heard(fields["event"], json.loads(fields["data"]), fields.get("id"), time.monotonic())
                    self._heard.put(heard)
                    fields = {}
        except httpx.TransportError:
            self.broken = True
        self._heard.put(None)
