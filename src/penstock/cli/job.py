"""`penstock job`: one job, how it came to be as it is, and with --follow what happens to it now."""

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.filesize import decimal

from penstock.cli import screen
from penstock.cli.connection import at_server
from penstock.cli.options import AsJson, JobId, Wait
from penstock.cli.screen import Refusal, printable
from penstock.cli.token import duration

if TYPE_CHECKING:
    from penstock.cli.remote import Remote


def register(app: typer.Typer) -> None:
    app.command("job", epilog="Example: penstock job 3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11 --follow")(at_server(job))


def job(
    *,
    remote: "Remote",
    job_id: JobId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Show events as they happen, to the end.")] = False,
    wait: Wait = "5m",
    as_json: AsJson = False,
) -> None:
    """Show a job: where it stands, what to do, its pages and its history.

    With --follow it stays until the job has ended, also across restarts of the server. --json prints one document,
    with --follow one line for each event.
    """
    from penstock.cli.following import print_events, show_events

    name, lasting = job_name(job_id), duration(wait, "--wait").total_seconds()
    if follow and as_json:
        print_events(remote, name, lasting)
        return
    found = remote.get(f"/api/v1/jobs/{name}")
    progress = remote.get(f"/api/v1/jobs/{name}/progress")
    timeline = _changes(remote, name)
    if as_json:
        screen.print_json({**found, "pages_by_status": progress["pages_by_status"], "timeline": timeline})
        return
    console = screen.console()
    print_job(console, found, progress)
    if follow:
        console.print()
        show_events(remote, name, progress, lasting)
    else:
        _print_timeline(console, timeline)


def job_name(text: str) -> str:
    """The id as the server knows it; nothing else gets into an address."""
    try:
        return str(UUID(text.strip()))
    except ValueError:
        raise Refusal(
            f"{printable(text)} is not a job's id: `penstock jobs` lists them.",
            f"{printable(text)} 不是任务编号：可用 penstock jobs 查看。",
        ) from None


def print_job(console: Console, found: dict[str, Any], progress: dict[str, Any]) -> None:
    for label, value in _facts(found, progress):
        if value:
            screen.print_labelled(console, label, printable(value), width=10)


def _facts(found: dict[str, Any], progress: dict[str, Any]) -> list[tuple[str, str]]:
    text, took = screen.text, found.get("durations") or {}
    lasted = [
        f"{label} {took[name]:.1f} s"
        for name, label in (
            ("evaluation_sec", text("evaluation", "评估")),
            ("processing_sec", text("processing", "处理")),
            ("total_sec", text("in all", "总计")),
        )
        if took.get(name) is not None
    ]
    pages = ", ".join(f"{count} {status}" for status, count in progress["pages_by_status"].items())
    return [
        (text("Job", "任务"), found["job_id"]),
        (text("File", "文件"), f"{found['source_file']}  {decimal(found['file_size'])}"),
        (text("Status", "状态"), f"{found['status']} ({found['user_status']}), {found['progress_percent']}%"),
        (text("Wrong", "问题"), found["error_message"] or ""),
        (text("Codes", "错误码"), ", ".join(found["error_codes"])),
        (text("Next", "下一步"), found["action_hint"]),
        (text("Pages", "页面"), f"{found['total_pages'] or ''}{f' ({pages})' if pages else ''}"),
        (text("Records", "记录"), str(found["total_skus"] or "")),
        (text("Category", "类别"), " / ".join(filter(None, (found["category"], found["industry"])))),
        (text("Merchant", "商户"), found["merchant_id"]),
        (text("Worker", "执行者"), found.get("worker_id") or ""),
        (text("Uploaded", "上传"), f"{clock(found['uploaded_at'])}  {found['uploaded_by']}"),
        (text("Took", "用时"), ", ".join(lasted)),
    ]


def clock(moment: str) -> str:
    """As the clock on this wall shows it."""
    return datetime.fromisoformat(moment).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _changes(remote: "Remote", name: str) -> list[dict[str, Any]]:
    """Of the job itself; its pages' changes are many."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        part = remote.get(f"/api/v1/jobs/{name}/timeline", limit=1000, cursor=cursor)
        found += [change for change in part["changes"] if change["page_number"] is None]
        cursor = part["next_cursor"]
        if cursor is None:
            return found


def _print_timeline(console: Console, changes: list[dict[str, Any]]) -> None:
    rows = [
        (
            clock(change["timestamp"]),
            f"{change['from_status'] or '·'} → {change['to_status']}",
            printable(", ".join(filter(None, (change["trigger"], change["operator"])))),
        )
        for change in changes
    ]
    if rows:
        console.print()
        columns = (
            screen.text("When", "时间"),
            screen.text("Change", "变化"),
            screen.text("Why, by whom", "原因与操作者"),
        )
        console.print(screen.table(columns, rows))
