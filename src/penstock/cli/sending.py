"""One file on its way to the server, by tus.

tuspy knows the protocol: its headers, metadata, checksums and the arithmetic of chunks. The connection is ours,
because its own has no time limit (a network that falls silent would hold us for ever), opens a new socket for
every chunk, and tells nothing until a chunk is over.

Invariant: only the server says how far we are. After any trouble it is asked, and we go on from its answer.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO, Protocol

import httpx
from tusclient.client import TusClient
from tusclient.request import TusRequest
from tusclient.uploader.uploader import Uploader

from penstock.cli.options import Checksum
from penstock.cli.remote import Away, NotOurs, Patience, Refused, Remote
from penstock.cli.screen import Refusal
from penstock.cli.upload_memory import Likeness, Note, Remembered

ENDPOINT = "/api/v1/uploads"
_GONE = (404, 410)
_MOST_LOSSES = 3  # a server that loses every upload would be sent the file for ever
_PIECE = 64 * 1024
_SMALLEST_CHUNK = 256 * 1024
_TIMEOUT = httpx.Timeout(60.0, connect=10.0)


class Telling(Protocol):
    """Someone who is told how it goes."""

    def at(self, offset: int) -> None: ...
    def goes_on(self, offset: int) -> None: ...
    def begins_anew(self, en: str, zh: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Way:
    """How to send: the same for every file of a command."""

    remote: Remote
    patience: Patience
    chunk_size: int
    checksum: Checksum


@dataclass(slots=True)
class Source:
    """A file that is open for sending."""

    path: Path
    file: BinaryIO
    likeness: Likeness = field(init=False)

    def __post_init__(self) -> None:
        self.likeness = Likeness.of(self.file)

    def refuse_if_changed(self) -> None:
        found = os.fstat(self.file.fileno())
        if (found.st_size, found.st_mtime_ns) != (self.likeness.size, self.likeness.mtime_ns):
            raise Changed


class Changed(Refusal):
    """The file is not the one we began to send."""

    def __init__(self) -> None:
        super().__init__(
            "The file was changed while it was being uploaded: nothing was kept. Upload it again.",
            "上传过程中文件被修改，未保留任何内容。请重新上传。",
        )


def send_file(source: Source, way: Way, remembered: Remembered, telling: Telling) -> str:
    """Bring the whole file to the server; the address of the finished upload."""
    sender = _Sender(source, way, telling)
    try:
        sender.resume(remembered)
        while sender.offset < source.likeness.size:
            sender.send_on(remembered)
        source.refuse_if_changed()
    except Changed:
        with suppress(Away, Refused):
            way.remote.send("DELETE", sender.address, headers=sender.get_headers())
        remembered.forget()
        raise
    remembered.keep(replace(sender.note(), finished=True))
    return sender.address


class _Sender(Uploader):
    request: "_Chunk | None"  # type: ignore[assignment]

    def __init__(self, source: Source, way: Way, telling: Telling) -> None:
        self.source = source
        self.remote = way.remote
        self.telling = telling
        self.address = ""
        self._lost = 0
        self._patience = way.patience
        if way.checksum is not Checksum.NONE:
            self.CHECKSUM_ALGORITHM_PAIR = (way.checksum.value, getattr(hashlib, way.checksum.value))
        super().__init__(
            file_stream=source.file,
            client=TusClient(f"{way.remote.address}{ENDPOINT}"),
            chunk_size=way.chunk_size,
            metadata={"filename": _sendable(source.path.name), "filetype": "application/pdf"},
            upload_checksum=way.checksum is not Checksum.NONE,
        )

    def note(self) -> Note:
        return Note(self.address, _sendable(str(self.source.path)), self.source.likeness)

    def resume(self, remembered: Remembered) -> None:
        """Go on where an earlier run stopped, or begin."""
        known = remembered.note
        if known is not None and known.likeness != self.source.likeness:
            self.telling.begins_anew("it has changed since it was begun", "文件自上次上传后已被修改")
            with suppress(Away, Refused):
                self.remote.send("DELETE", known.url, headers=self.get_headers())
            known = None
        if known is None:
            self.begin(remembered)
            return
        self._at(known.url)
        self._ask(remembered)
        if self.address == known.url:
            self.telling.goes_on(self.offset)

    def begin(self, remembered: Remembered) -> None:
        remembered.forget()
        self._at(self._patience.over(self.create_url))
        self.offset = 0
        remembered.keep(self.note())

    def send_on(self, remembered: Remembered) -> None:
        """One chunk; or, after trouble, the question how far we are."""
        before = self.offset
        try:
            self.upload_chunk()
        except (Away, Refused) as failure:
            if not (isinstance(failure, Refused) and failure.status in _GONE):
                if isinstance(failure, Away):  # a shaky network carries small chunks better
                    self.chunk_size = max(_SMALLEST_CHUNK, self.chunk_size // 2)
                self._patience.wait(failure)
            self._ask(remembered)
        if self.offset > before:
            self._patience.rest()
        self.telling.at(self.offset)

    def _ask(self, remembered: Remembered) -> None:
        try:
            self.offset = self._patience.over(self.get_offset)
        except Refused as refused:
            self._lost += 1
            if refused.status not in _GONE or self._lost > _MOST_LOSSES:
                raise
            self.telling.begins_anew("the server has it no longer", "服务器上已不存在该上传")
            self.begin(remembered)

    def _at(self, address: str) -> None:
        self.address = address
        self.set_url(address)

    # What tuspy would do over connections of its own.

    def create_url(self) -> str:
        answer = self.remote.send("POST", ENDPOINT, headers=self.get_url_creation_headers(), timeout=_TIMEOUT)
        if "location" not in answer.headers:
            raise NotOurs(self.remote.address)
        where = answer.url.join(answer.headers["location"])
        if answer.url.scheme == "https" and where.scheme != "https":  # the token would go in the clear
            raise NotOurs(self.remote.address)
        return str(where)

    def get_offset(self) -> int:
        headers = self.remote.send("HEAD", self.address, headers=self.get_headers()).headers
        if headers.get("upload-length") != str(self.source.likeness.size):
            raise Refused(410, {})  # somebody else's, whatever the address says
        return self._offset_in(headers)

    def _do_request(self) -> None:
        request = _Chunk(self)
        request.perform()
        if self._offset_in(request.response_headers) <= self.offset:  # taken, and not counted
            raise NotOurs(self.remote.address)
        self.request = request

    def _offset_in(self, headers: Mapping[str, str]) -> int:
        offset = headers.get("upload-offset", "")
        if not offset.isdecimal() or int(offset) > self.source.likeness.size:
            raise NotOurs(self.remote.address)
        return int(offset)


class _Chunk(TusRequest):
    def __init__(self, sender: _Sender) -> None:
        super().__init__(sender)
        self._sender = sender

    def perform(self) -> None:
        try:
            chunk = self.file.read(self._content_length)
        except OSError as failure:
            raise unreadable(failure) from failure
        if len(chunk) < self._content_length:
            raise Changed
        self.add_checksum(chunk)
        headers = {**self._request_headers, "Content-Length": str(len(chunk))}
        content = _pieces(chunk, self._sender.offset, self._sender.telling.at)
        answer = self._sender.remote.send(
            "PATCH", self._sender.address, headers=headers, content=content, timeout=_TIMEOUT
        )
        self.response_headers = {name.lower(): value for name, value in answer.headers.items()}


def unreadable(failure: OSError) -> Refusal:
    reason = failure.strerror or str(failure)
    return Refusal(f"The file cannot be read: {reason}.", f"无法读取文件：{reason}。")


def _pieces(chunk: bytes, offset: int, tell: Callable[[int], None]) -> Iterator[bytes]:
    for at in range(0, len(chunk), _PIECE):
        yield chunk[at : at + _PIECE]
        tell(offset + min(at + _PIECE, len(chunk)))


def _sendable(name: str) -> str:
    """A name that is not Unicode, as files may have, loses what is not."""
    return os.fsencode(name).decode(errors="replace")
