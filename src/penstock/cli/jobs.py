"""`penstock jobs`: which jobs there are, the newest first."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.connection import at_server
from penstock.cli.options import AsJson
from penstock.cli.screen import Refusal, printable
from penstock.cli.token import duration

if TYPE_CHECKING:
    from penstock.cli.remote import Remote

_MOST_AT_ONCE = 200
_WIDE = 110
STYLES = {
    "processing": "cyan",
    "partial_success": "yellow",
    "completed": "green",
    "needs_manual": "yellow",
    "failed": "red",
}


def register(app: typer.Typer) -> None:
    app.command("jobs", epilog="Example: penstock jobs --user-status failed --since 2d")(at_server(jobs))


def jobs(  # noqa: PLR0913  one parameter for each option
    *,
    remote: "Remote",
    status: Annotated[
        list[str] | None, typer.Option(metavar="STATUS", help="Such as PROCESSING or ORPHANED; may be repeated.")
    ] = None,
    user_status: Annotated[
        list[str] | None,
        typer.Option(metavar="STATUS", help="processing, partial_success, completed, needs_manual or failed."),
    ] = None,
    category: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this category.")] = None,
    search: Annotated[str | None, typer.Option(metavar="TEXT", help="A part of the file's name.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="WHEN", help="Created since: 12h, 7d or 2026-01-31.", show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 20,
    everything: Annotated[bool, typer.Option("--all", help="All of them, however many.")] = False,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""
    wanted = {
        "status": [each.upper() for each in status or ()],
        "user_status": [each.lower() for each in user_status or ()],
        "category": category,
        "q": search,
        "created_from": None if since is None else moment(since).isoformat(),
    }
    found, more = _gather(remote, wanted, None if everything else limit)
    if as_json:
        screen.print_json(found)
        return
    console = screen.console()
    if not found:
        console.print(screen.text("No jobs.", "没有任务。"), style="dim")
        return
    _print(found)
    if more:
        said = screen.text("There are more: --limit or --all shows them.", "还有更多：可用 --limit 或 --all 查看。")
        console.print(f"\n{said}", style="dim")


def moment(text: str) -> datetime:
    """`12h` and `7d` count back from now; otherwise a date, or a date and time (of this machine's zone)."""
    if text[-1:] in "smhd" and text[:-1].isdecimal():
        return datetime.now(UTC) - duration(text, "--since")
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise Refusal(
            f"--since {text} is neither a duration such as 12h nor a date such as 2026-01-31.",
            f"--since {text} 既不是时长（如 12h），也不是日期（如 2026-01-31）。",
        ) from None


def _gather(remote: "Remote", wanted: dict[str, Any], limit: int | None) -> tuple[list[dict[str, Any]], bool]:
    """As many as wanted, and whether there are more."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        size = _MOST_AT_ONCE if limit is None else min(_MOST_AT_ONCE, limit - len(found))
        part = remote.get("/api/v1/jobs", **wanted, limit=size, cursor=cursor)
        found += part["jobs"]
        cursor = part["next_cursor"]
        if cursor is None or (limit is not None and len(found) >= limit):
            return found, cursor is not None


def _print(found: list[dict[str, Any]]) -> None:
    console = screen.console()
    wide = console.width >= _WIDE
    columns = [
        screen.text("Job", "任务"),
        screen.text("File", "文件"),
        screen.text("Status", "状态"),
        screen.text("Done", "进度"),
    ]
    if wide:
        columns += [screen.text("Pages", "页数"), screen.text("Merchant", "商户"), screen.text("Age", "时间")]
    table = screen.table(columns, [_row(job, wide=wide) for job in found])
    for index in (0, 2, 3):
        table.columns[index].no_wrap = True
    console.print(table)


def _row(job: dict[str, Any], *, wide: bool) -> list[str | Text]:
    status = Text(job["status"], style=STYLES.get(job["user_status"], ""))
    row = [job["job_id"], Text(printable(job["source_file"])), status, f"{job['progress_percent']}%"]
    if wide:
        row += [str(job["total_pages"] or ""), Text(printable(job["merchant_id"])), age(job["created_at"])]
    return row


def age(since: str) -> str:
    """`3 h` ago, roughly."""
    lasted = max(timedelta(0), datetime.now(UTC) - datetime.fromisoformat(since))
    for unit, seconds in (("d", 86400), ("h", 3600), ("min", 60)):
        if lasted.total_seconds() >= seconds:
            return f"{lasted.total_seconds() // seconds:.0f} {unit}"
    return f"{lasted.total_seconds():.0f} s"
