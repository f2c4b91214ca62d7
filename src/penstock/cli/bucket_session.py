"""A resumable session of a bucket, as a phone speaks it: plain HTTP, so that it can be read and written anew elsewhere.

Invariant: only the bucket says how far we are. After any trouble it is asked (`bytes */TOTAL`), and we go on from its
answer. Nothing is said of 412 here: it may mean that an earlier try has succeeded, which only Penstock knows.
"""

import re
from collections.abc import Callable, Mapping
from typing import BinaryIO

import httpx

from penstock.cli.bucket_wire import BucketWire, SessionGone, refusal, shorter, standstill
from penstock.cli.remote import Away, Patience, Refused

QUANTUM = 256 * 1024  # every chunk but the last is a multiple of it
_OVER, _MORE = (200, 201), 308
_RANGE = re.compile(r"bytes=0-(\d+)")
_MOST_STANDSTILLS = 5


class ObjectExists(Exception):
    """The bucket has an object of that name already and keeps it."""


class BucketSession:
    """One bucket's service. Patience with chunks lasts until one gets further, whatever else is answered meanwhile."""

    def __init__(self, wire: BucketWire, patience: Patience) -> None:
        self._wire, self._patience, self._with_chunks = wire, patience, patience.another()

    def begin(self, address: str, headers: Mapping[str, str]) -> str:
        """The address of a new session; SessionGone when the signature is over."""
        answer = self._patience.over(lambda: self._wire.ask("POST", address, {**headers, "Content-Length": "0"}))
        location = answer.headers.get("Location")
        if answer.status_code not in _OVER or not location:
            raise self._failed(answer)
        return str(location)

    def offset(self, session: str, total: int) -> int:
        """How many bytes the bucket has; `total` when it has all."""
        about = {"Content-Range": f"bytes */{total}", "Content-Length": "0"}
        return self._reached(self._patience.over(lambda: self._wire.ask("PUT", session, about)), total)

    def send(self, session: str, file: BinaryIO, total: int, chunk: int, tell: Callable[[int], None]) -> None:
        """Until the bucket has all of it."""
        at, standing = self.offset(session, total), 0
        while at < total or total == 0:
            tell(at)
            reached = self._one(session, file, (at, total), chunk)
            if total == 0 and reached is not None:
                return
            standing = standing + 1 if reached is not None and reached <= at else 0
            if standing > _MOST_STANDSTILLS:
                raise standstill(_MORE)
            at = self.offset(session, total) if reached is None else reached
        tell(total)

    def _one(self, session: str, file: BinaryIO, place: tuple[int, int], chunk: int) -> int | None:
        """How far the bucket says we are; None: it said nothing, and has to be asked."""
        at, total = place
        file.seek(at)
        piece = file.read(min(chunk, total - at))
        if total and not piece:
            raise shorter()
        span = f"bytes {at}-{at + len(piece) - 1}/{total}" if piece else "bytes */0"
        try:
            answer = self._wire.ask("PUT", session, {"Content-Range": span}, piece)
        except (Away, Refused) as failure:
            self._with_chunks.wait(failure)
            return None
        if (reached := self._reached(answer, total)) > at:
            self._with_chunks.rest()
        return reached

    def _reached(self, answer: httpx.Response, total: int) -> int:
        if answer.status_code in _OVER:
            return total
        if answer.status_code != _MORE:
            raise self._failed(answer)
        said = _RANGE.fullmatch(answer.headers.get("Range", "").strip())
        return min(int(said[1]) + 1, total) if said else 0

    def _failed(self, answer: httpx.Response) -> Exception:
        if answer.status_code in (404, 410) or b"ExpiredToken" in answer.content[:4096]:
            return SessionGone()
        if answer.status_code == 412:
            return ObjectExists()
        return refusal(answer.status_code)
