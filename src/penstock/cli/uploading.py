"""Files on their way to becoming jobs, one after the other.

What has been sent is on the server; where it is, in a small file here. So the command can be ended at any
instant, by Ctrl-C or worse, and the same command finishes the work: a job is made under a key that follows from
the upload, so that asking twice gives one job.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ByteSize, TypeAdapter, ValidationError

from penstock.cli import screen
from penstock.cli.options import Checksum
from penstock.cli.remote import Away, Patience, Refused, Remote
from penstock.cli.screen import Refusal
from penstock.cli.sending import Source, Way, send_file, unreadable
from penstock.cli.upload_memory import Remembered, remembering
from penstock.cli.upload_outcome import Outcome, print_outcome
from penstock.cli.upload_screen import View, view_for
from penstock.kernel import failpoints, json
from penstock.kernel.error_codes import FILE_HASH_DUPLICATE, UPLOAD_GONE, UPLOAD_NOT_FOUND

_MAGIC_WITHIN = 1024  # as readers of PDFs have it
_CHUNK_BOUNDS = (64 * 1024, 1 << 30)
_CHECK_SECONDS = 600.0  # a thousand pages are looked at before the server answers


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to become of the files."""

    category: str | None
    industry: str | None
    allow_duplicate: bool
    no_job: bool
    act_for: str | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """How patiently, and how much at a time."""

    wait: float
    chunk_size: int
    checksum: Checksum


def upload_all(remote: Remote, files: Sequence[Path], wish: Wish, pace: Pace, *, as_json: bool) -> bool:
    """Did all of them go well?"""
    try:
        return not sum(outcome.failure is not None for outcome in _outcomes(remote, files, wish, pace, as_json))
    except KeyboardInterrupt:
        said = screen.text(
            "Interrupted; what was sent is kept. Run the same command again to go on.",
            "已中断；已上传的部分会保留。再次运行同一命令即可继续。",
        )
        screen.console(stderr=True).print(said, style="yellow")
        raise


def _outcomes(remote: Remote, files: Sequence[Path], wish: Wish, pace: Pace, as_json: bool) -> Iterator[Outcome]:
    with view_for([_size(path) for path in files], quiet=as_json) as view:
        way = Way(remote, Patience(pace.wait, view.waits), pace.chunk_size, pace.checksum)
        run = _Run(way, wish, view)
        remote.send("GET", "/health/live")  # nobody there is said at once; who leaves later is waited for
        for path in files:
            outcome = run.one(path)
            with view.aside():
                print_outcome(outcome, as_json=as_json)
            yield outcome


class _Run:
    """One command's way through its files."""

    def __init__(self, way: Way, wish: Wish, view: View) -> None:
        self._way = way
        self._wish = wish
        self._view = view
        self._away: Away | None = None

    def one(self, path: Path) -> Outcome:
        """A file that fails does not hold up the others; a server that has gone does."""
        outcome = Outcome(path)
        try:
            if self._away:
                raise self._away
            with opened(path) as source, remembering(self._way.remote.address, path.resolve()) as remembered:
                outcome.size = source.likeness.size
                self._view.begin(path, outcome.size)
                try:
                    self._send(source, remembered, outcome)
                finally:
                    self._view.end()
        except Away as failure:
            outcome.failure = self._away = failure
        except Refusal as failure:
            outcome.failure = failure
        return outcome

    def _send(self, source: Source, remembered: Remembered, outcome: Outcome) -> None:
        done = remembered.note
        if done is None or not done.finished or done.likeness != source.likeness:
            outcome.upload_id = _id(send_file(source, self._way, remembered, self._view))
        else:
            outcome.upload_id = _id(done.url)
            self._view.goes_on(source.likeness.size)
        try:
            self._make_job(remembered, outcome)
        except Refused as refused:
            gone = refused.code in (UPLOAD_GONE.code, UPLOAD_NOT_FOUND.code)
            if not gone or done is None:
                raise
            self._view.begins_anew("the server has it no longer", "服务器上已不存在该上传")
            remembered.forget()
            outcome.upload_id = _id(send_file(source, self._way, remembered, self._view))
            self._make_job(remembered, outcome)

    def _make_job(self, remembered: Remembered, outcome: Outcome) -> None:
        if self._wish.no_job:
            remembered.forget()
            return
        self._view.checks()
        body = {
            "upload_id": outcome.upload_id,
            "category": self._wish.category,
            "industry": self._wish.industry,
            "allow_duplicate": self._wish.allow_duplicate,
        }
        if self._wish.act_for:
            body["impersonate_merchant_id"] = self._wish.act_for
        key = {"Idempotency-Key": f"{outcome.upload_id}-{hashlib.sha256(json.dump_bytes(body)).hexdigest()[:12]}"}
        remote = self._way.remote
        failpoints.reach("client.sent")
        try:
            outcome.job = self._way.patience.over(
                lambda: remote.post("/api/v1/jobs", body, headers=key, seconds=_CHECK_SECONDS)
            )
        except Refused as refused:
            if _is_about_the_file(refused):
                remembered.forget()
            raise
        failpoints.reach("client.job_made")
        remembered.forget()


def _is_about_the_file(refused: Refused) -> bool:
    """Then sending the same bytes again changes nothing. A duplicate may be wanted after all: its bytes wait."""
    return 400 <= refused.status < 500 and "job_id" in refused.details and refused.code != FILE_HASH_DUPLICATE.code


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """A file that is worth sending; every other is refused before a byte is sent."""
    if path.is_dir():
        raise Refusal("That is a directory; name the files in it.", "这是一个目录；请指定其中的文件。")
    if path.exists() and not path.is_file():  # a pipe could not be read twice
        raise Refusal("That is not a file: save it as one first.", "这不是普通文件：请先保存为文件。")
    try:
        with path.open("rb") as file:
            source = Source(path, file)
            file.seek(0)
            head = file.read(_MAGIC_WITHIN + 5)
            if not source.likeness.size:
                raise Refusal("The file is empty.", "文件为空。")
            if b"%PDF-" not in head:
                raise Refusal("The file is not a PDF: it does not begin as one.", "该文件不是 PDF：文件头不符。")
            yield source
    except FileNotFoundError as failure:
        raise Refusal("There is no such file.", "文件不存在。") from failure
    except OSError as failure:
        raise unreadable(failure) from failure


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _id(address: str) -> str:
    return address.rstrip("/").rpartition("/")[2]


def chunk_bytes(text: str) -> int:
    try:
        size = int(TypeAdapter(ByteSize).validate_python(text))
    except ValidationError:
        size = 0
    if not _CHUNK_BOUNDS[0] <= size <= _CHUNK_BOUNDS[1]:
        raise Refusal(
            f"--chunk-size {text} is not a size between 64KiB and 1GiB, such as 8MiB.",
            f"--chunk-size {text} 不是 64KiB 到 1GiB 之间的大小，例如 8MiB。",
        )
    return size
