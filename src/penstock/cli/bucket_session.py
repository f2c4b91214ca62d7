"""A resumable session of a bucket, as a phone speaks it: plain HTTP, so that it can be read and written anew elsewhere.

Invariant: only the bucket says how far we are. After any trouble it is asked (`bytes */TOTAL`), and we go on from its
answer. Nothing is said of 412 here: it may mean that an earlier try has succeeded, which only Penstock knows.
"""

import re
from collections.abc import Callable, Mapping
from typing import BinaryIO

import httpx

from penstock.cli.remote import Away, Patience, Refused
from penstock.cli.screen import Refusal

QUANTUM = 256 * 1024  # every chunk but the last is a multiple of it
_TIMEOUT = httpx.Timeout(60.0, connect=10.0)
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
_OVER, _MORE = (200, 201), 308
_RANGE = re.compile(r"bytes=0-(\d+)")
_MOST_STANDSTILLS = 5


class SessionGone(Exception):
    """The bucket knows the session no longer: a new one must be begun."""


class ObjectExists(Exception):
    """The bucket has an object of that name already and keeps it."""


class BucketSession:
    """One bucket's service. The address of a session opens it to whoever has it: it is shown to nobody."""

    def __init__(self, patience: Patience, *, here: bool) -> None:
        self._patience = patience
        self._client = httpx.Client(timeout=_TIMEOUT, trust_env=not here, follow_redirects=False)

    def close(self) -> None:
        self._client.close()

    def begin(self, address: str, headers: Mapping[str, str]) -> str:
        """The address of a new session; SessionGone when the signature is over."""
        answer = self._patience.over(lambda: self._ask("POST", address, {**headers, "Content-Length": "0"}))
        location = answer.headers.get("Location")
        if answer.status_code not in _OVER or not location:
            raise self._failed(answer)
        return str(location)

    def offset(self, session: str, total: int) -> int:
        """How many bytes the bucket has; `total` when it has all."""
        about = {"Content-Range": f"bytes */{total}", "Content-Length": "0"}
        return self._reached(self._patience.over(lambda: self._ask("PUT", session, about)), total)

    def send(self, session: str, file: BinaryIO, total: int, chunk: int, tell: Callable[[int], None]) -> None:
        """Until the bucket has all of it."""
        at, standing = self.offset(session, total), 0
        while at < total or total == 0:
            tell(at)
            reached = self._one(session, file, (at, total), chunk)
            if total == 0:
                return
            standing = standing + 1 if reached <= at else 0
            if standing > _MOST_STANDSTILLS:
                raise Refusal("The bucket takes nothing more of the file.", "存储桶不再接收该文件的数据。")
            at = reached
        tell(total)

    def _one(self, session: str, file: BinaryIO, place: tuple[int, int], chunk: int) -> int:
        at, total = place
        file.seek(at)
        piece = file.read(min(chunk, total - at))
        if total and not piece:
            raise Refusal("The file has become shorter while it was sent.", "文件在上传过程中变短了。")
        span = f"bytes {at}-{at + len(piece) - 1}/{total}" if piece else "bytes */0"
        try:
            answer = self._ask("PUT", session, {"Content-Range": span}, piece)
        except (Away, Refused) as failure:
            self._patience.wait(failure)
            return self.offset(session, total)
        self._patience.rest()
        return self._reached(answer, total)

    def _reached(self, answer: httpx.Response, total: int) -> int:
        if answer.status_code in _OVER:
            return total
        if answer.status_code != _MORE:
            raise self._failed(answer)
        said = _RANGE.fullmatch(answer.headers.get("Range", "").strip())
        return min(int(said[1]) + 1, total) if said else 0

    def _ask(self, method: str, address: str, headers: Mapping[str, str], content: bytes = b"") -> httpx.Response:
        try:
            answer = self._client.request(method, address, headers=dict(headers), content=content)
        except httpx.TransportError as failure:
            raise Away(_host(address), type(failure).__name__) from failure
        if answer.status_code in _PASSING:
            raise Refused(answer.status_code, {})
        return answer

    def _failed(self, answer: httpx.Response) -> Exception:
        if answer.status_code in (404, 410) or b"ExpiredToken" in answer.content[:4096]:
            return SessionGone()
        if answer.status_code == 412:
            return ObjectExists()
        return Refusal(
            f"The bucket refuses the file ({answer.status_code}).", f"存储桶拒绝了该文件（{answer.status_code}）。"
        )


def _host(address: str) -> str:
    """The rest of the address is a secret."""
    url = httpx.URL(address)
    return f"{url.scheme}://{url.netloc.decode()}"
