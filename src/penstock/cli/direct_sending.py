"""Files on their way straight to the bucket, one after the other, as an app would send them.

Announced to Penstock, sent to the bucket, looked for at Penstock again: it is complete when Penstock says so. Ended at
any instant, the same command goes on: the session is remembered, and the announcement finds the same upload.
"""

import hashlib
import mimetypes
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Any

from penstock.cli import screen
from penstock.cli.bucket_parts import BucketParts
from penstock.cli.bucket_session import BucketSession, ObjectExists
from penstock.cli.bucket_wire import BucketWire, SessionGone
from penstock.cli.remote import Patience, Remote
from penstock.cli.screen import Refusal
from penstock.cli.send_outcome import Sent, print_sent
from penstock.cli.sending import unreadable
from penstock.cli.upload_memory import Likeness, Note, Remembered, remembering
from penstock.cli.upload_screen import View, view_for
from penstock.kernel import failpoints

_ENDPOINT = "/api/v1/direct-uploads"
_MOST_SESSIONS = 5
_LOOK_SECONDS = 0.5
_ENDED = ("completed", "failed")
_MOMENT = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Sending:
    """What the options say."""

    content_type: str | None
    seconds: int | None
    video_id: str | None
    chunk_size: int
    wait: float


def send_all(remote: Remote, files: Sequence[Path], wish: Sending, *, as_json: bool) -> bool:
    """Are all of them complete?"""
    try:
        with view_for([path.stat().st_size if path.is_file() else 0 for path in files], quiet=as_json) as view:
            went_well = [_shown(_one(remote, path, wish, view), view, as_json=as_json) for path in files]
    except KeyboardInterrupt:
        said = screen.text(
            "Interrupted; what was sent is kept. Run the same command again to go on.",
            "已中断；已上传的部分会保留。再次运行同一命令即可继续。",
        )
        screen.console(stderr=True).print(said, style="yellow")
        raise
    return all(went_well)


def _shown(sent: Sent, view: View, *, as_json: bool) -> bool:
    with view.aside():
        print_sent(sent, as_json=as_json)
    return sent.is_well


def _one(remote: Remote, path: Path, wish: Sending, view: View) -> Sent:
    sent = Sent(path)
    try:
        with _opened(path) as file, remembering(f"{remote.address} direct", path.resolve()) as remembered:
            sent.size = Likeness.of(file).size
            view.begin(path, sent.size)
            patience = Patience(wish.wait, view.waits)
            wire = BucketWire(here=remote.is_here)
            try:
                sent.upload = _Course(remote, wire, patience, view).run(file, path, wish, remembered)
            finally:
                wire.close()
                view.end()
    except Refusal as failure:
        sent.failure = failure
    return sent


@dataclass(frozen=True, slots=True)
class _Course:
    """One file from announcement to verdict."""

    remote: Remote
    wire: BucketWire
    patience: Patience
    view: View

    def run(self, file: BufferedReader, path: Path, wish: Sending, remembered: Remembered) -> dict[str, Any]:
        likeness = Likeness.of(file)
        announcement = _announcement(file, path, wish, likeness.size)
        known = remembered.note if remembered.note and remembered.note.likeness == likeness else None
        for _ in range(_MOST_SESSIONS):
            opened = self.patience.over(lambda: self.remote.post(_ENDPOINT, announcement))
            note = known or Note("", str(path), likeness)
            if not opened["already_completed"] and not self._sent(file, opened, note, remembered, wish.chunk_size):
                known = None
                remembered.forget()
                self.view.begins_anew("the bucket has ended the session", "存储桶已结束该会话")
                continue
            failpoints.reach("client.sent_to_bucket")
            found = self._verdict(opened["upload_id"], wish.wait)
            remembered.forget()
            return found
        raise Refusal("The bucket ends every session that is begun.", "存储桶结束了每一个新会话。")

    def _sent(self, file: BufferedReader, opened: Any, note: Note, remembered: Remembered, chunk: int) -> bool:
        """False: the session is gone. That the object exists is no failure: it may be ours."""
        try:
            if opened["part_bytes"] is not None:
                parts = BucketParts(self.remote, self.wire, self.patience, f"{_ENDPOINT}/{opened['upload_id']}")
                parts.send(file, note.likeness.size, self.view)
            else:
                self._in_a_session(file, opened, note, remembered, chunk)
        except SessionGone:
            return False
        except ObjectExists:
            self.view.checks()
        return True

    def _in_a_session(self, file: BufferedReader, opened: Any, note: Note, remembered: Remembered, chunk: int) -> None:
        session = BucketSession(self.wire, self.patience)
        if not note.url:
            address = session.begin(opened["resumable_init_url"], opened["resumable_init_headers"])
            note = replace(note, url=address)
            remembered.keep(note)
        elif at := session.offset(note.url, note.likeness.size):
            self.view.goes_on(at)
        session.send(note.url, file, note.likeness.size, chunk, self.view.at)

    def _verdict(self, upload_id: str, wait: float) -> dict[str, Any]:
        self.view.checks()
        until = time.monotonic() + wait
        while True:
            found = self._look(f"{_ENDPOINT}/{upload_id}")
            if found["status"] in _ENDED or time.monotonic() > until:
                return self._with_consequences(found)
            time.sleep(_LOOK_SECONDS)

    def _with_consequences(self, found: dict[str, Any]) -> dict[str, Any]:
        """A film that is too long, a document that is refused: known a moment later, and what people want to know."""
        until = time.monotonic() + _MOMENT
        while found["status"] == "completed" and found["policy"] in ("video", "pdf") and time.monotonic() < until:
            film = self._look(f"/api/v1/videos/{found['video_id']}") if found["video_id"] else None
            found |= {"video": film} if film else {}
            if found["job_id"] or found["error_code"] or (film and (film["container"] or film["error_code"])):
                break
            time.sleep(_LOOK_SECONDS)
            found = self._look(f"{_ENDPOINT}/{found['upload_id']}")
        return found

    def _look(self, path: str) -> dict[str, Any]:
        seen: dict[str, Any] = self.patience.over(lambda: self.remote.get(path))
        return seen


def _announcement(file: BufferedReader, path: Path, wish: Sending, size: int) -> dict[str, Any]:
    file.seek(0)
    content_type = wish.content_type or mimetypes.guess_type(path.name)[0]
    if content_type is None:
        raise Refusal(
            "The file's name does not tell its type; name it with --type, such as video/mp4.",
            "无法从文件名判断类型；请用 --type 指定，例如 video/mp4。",
        )
    md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    return {
        "filename": path.name,
        "size_bytes": size,
        "content_type": content_type,
        "content_md5_hex": md5,
        "duration_seconds": wish.seconds,
        "video_id": wish.video_id,
    }


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    if not path.is_file():
        raise Refusal("There is no such file.", "文件不存在。")
    try:
        with path.open("rb") as file:
            yield file
    except OSError as failure:
        raise unreadable(failure) from failure
