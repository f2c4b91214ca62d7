"""A job's events as they happen, by server-sent events.

The connection may break and the server may be restarted: we come back with the id of the last event and miss
nothing. The end is when the server says that the job has ended. Frames are split as bytes: a text of a record may
hold characters that count as line ends elsewhere.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from penstock.cli import screen
from penstock.cli.remote import Away, Patience, Refused, Remote
from penstock.cli.screen import Refusal, printable
from penstock.cli.upload_screen import what_for
from penstock.documents.states import JOB
from penstock.kernel import json
from penstock.kernel.errors import Language

_SILENCE = 75.0  # two and a half heartbeats
_LOOK_SECONDS = 1.0
_PAUSE = 0.25
_LONGEST_FRAME = 1 << 24


@dataclass(frozen=True, slots=True)
class Event:
    """One frame."""

    name: str
    data: dict[str, Any] = field(default_factory=dict)
    place: str | None = None  # its id: where to go on


def frames(chunks: Iterable[bytes]) -> Iterator[Event]:
    """Whole frames out of a stream of bytes; comments and empty frames are passed over."""
    kept = b""
    for chunk in chunks:
        kept = (kept + chunk).replace(b"\r\n", b"\n")
        *whole, kept = kept.split(b"\n\n")
        if len(kept) > _LONGEST_FRAME:
            raise Refused(502, {"message": "The server sends an event without an end"})
        for frame in whole:
            if event := _event(frame):
                yield event


def _event(frame: bytes) -> Event | None:
    fields: dict[bytes, list[bytes]] = {}
    for line in frame.split(b"\n"):
        name, _, value = line.partition(b":")
        fields.setdefault(name, []).append(value.removeprefix(b" "))
    if b"data" not in fields:
        return None
    try:
        data = json.loads(b"\n".join(fields[b"data"]))
    except ValueError:
        return None
    place = fields[b"id"][-1].decode(errors="replace") if b"id" in fields else None
    kind = fields.get(b"event", [b"message"])[-1].decode(errors="replace")
    return Event(kind, data if isinstance(data, dict) else {"value": data}, place)


def events(remote: Remote, job_id: str, patience: Patience) -> Iterator[Event]:
    """From what is true now to the job's last event, whatever happens to the connection between."""
    place: str | None = None
    while True:
        try:
            headers = {"Accept": "text/event-stream", **({"Last-Event-ID": place} if place else {})}
            with remote.stream(f"/api/v1/jobs/{job_id}/events", headers, _SILENCE) as (status, chunks):
                if status == 204:
                    return
                heard = False
                for event in frames(chunks):
                    heard = True
                    patience.rest()
                    place = event.place or place
                    yield event
                    if says_the_end(event):
                        return
            if heard:  # closed in good order: a server that stops, or a token that has expired
                time.sleep(_PAUSE)
            else:
                patience.wait(Away(remote.address, screen.text("the stream was closed", "事件流已关闭")))
        except (Away, Refused) as failure:
            patience.wait(failure)


def says_the_end(event: Event) -> bool:
    if event.name == "snapshot":
        return event.data.get("status", "") in {None, *JOB.terminal}
    return event.data.get("entity") == "job" and event.data.get("to") in JOB.terminal


def print_events(remote: Remote, job_id: str, wait: float) -> None:
    """For programs: a line of JSON for each event."""
    remote.get(f"/api/v1/jobs/{job_id}")  # a wrong id or token is said at once
    for event in events(remote, job_id, Patience(wait, lambda *_: None)):
        if event.name != "heartbeat":
            sys.stdout.write(json.dumps({"id": event.place, "event": event.name, "data": event.data}) + "\n")
            sys.stdout.flush()


def show_events(remote: Remote, job_id: str, progress: dict[str, Any], wait: float) -> None:
    """For people: a line for each event and, in a terminal, a bar of the pages below them."""
    console = screen.console()
    bar = _bar(console)
    bar.add_task(progress["status"], total=progress["total_pages"] or None, completed=progress["pages_done"])
    said = ""

    def waits(failure: Refusal, seconds: float) -> None:
        nonlocal said
        if said != str(failure):
            said = str(failure)
            console.print(Text(what_for(failure, seconds), style="yellow"))

    with bar:
        looked = time.monotonic()
        for event in events(remote, job_id, Patience(wait, waits)):
            said = ""
            if event.name == "heartbeat":
                continue
            console.print(line_of(event))
            if time.monotonic() - looked >= _LOOK_SECONDS or event.name == "snapshot":
                looked = time.monotonic()
                _look(remote, job_id, bar)
        _look(remote, job_id, bar)
    _print_end(console, Patience(wait, waits).over(lambda: remote.get(f"/api/v1/jobs/{job_id}")))


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.completed}/{task.total}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _look(remote: Remote, job_id: str, bar: Progress) -> None:
    """How far the pages are; not worth waiting for a server that is away."""
    try:
        now = remote.get(f"/api/v1/jobs/{job_id}/progress")
    except (Away, Refused):
        return
    bar.update(
        bar.task_ids[0], description=now["status"], total=now["total_pages"] or None, completed=now["pages_done"]
    )


def line_of(event: Event) -> Text:
    """`12:03:44  page_completed  page 7  AI_PROCESSING → AI_COMPLETED`"""
    data = event.data
    page = data.get("page_no") or data.get("page_number") or data.get("page")
    told = [f"{screen.text('page', '第')} {page}{screen.text('', ' 页')}"] if page else []
    if event.name == "snapshot":
        told += [f"{data.get('status')}", f"{data.get('progress_percent')}%"]
    elif data.get("to"):
        told.append(f"{data['from']} → {data['to']}" if data.get("from") else str(data["to"]))
    if message := _message(data):
        told.append(message)
    return Text.assemble(
        (time.strftime("%H:%M:%S  "), "dim"), (f"{printable(event.name):<18}  ", "cyan"), printable("  ".join(told))
    )


def _message(data: Mapping[str, Any]) -> str:
    """In the terminal's language, where the event brings both."""
    spoken = "zh" if screen.language() is Language.ZH else "en"
    both = (data.get("sentences") or {}).get("message") or {}
    return str(both.get(spoken) or data.get("message") or "")


def _print_end(console: Console, found: dict[str, Any]) -> None:
    console.print()
    screen.print_labelled(console, screen.text("Status", "状态"), f"{found['status']} ({found['user_status']})")
    screen.print_labelled(console, screen.text("Next", "下一步"), printable(found["action_hint"]))
