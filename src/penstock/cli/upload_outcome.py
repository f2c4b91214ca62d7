"""What became of a file: the job that it is now, or why there is none and what to do."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.padding import Padding
from rich.text import Text

from penstock.cli import screen
from penstock.cli.remote import Refused
from penstock.cli.screen import Refusal, printable
from penstock.kernel import json
from penstock.kernel.error_codes import FILE_HASH_DUPLICATE, REGISTRY


@dataclass(slots=True)
class Outcome:
    """One file of the command."""

    path: Path
    size: int = 0
    upload_id: str | None = None
    job: dict[str, Any] | None = None
    failure: Refusal | None = None


def print_outcome(outcome: Outcome, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(_document(outcome)) + "\n")
        sys.stdout.flush()
        return
    console = screen.console()
    if outcome.failure is None:
        _print_success(console, outcome)
    else:
        _print_failure(console, outcome, outcome.failure)


def _document(outcome: Outcome) -> dict[str, Any]:
    failure = outcome.failure
    error: dict[str, Any] | None = None
    if isinstance(failure, Refused):
        error = {"code": failure.code, "message": failure.message, "remedy": failure.remedy,
                 "details": dict(failure.details)}  # fmt: skip
    elif failure is not None:
        error = {"code": None, "message": failure.sentence.in_language(screen.language())}
    return {
        "file": printable(str(outcome.path)),
        "ok": failure is None,
        "size": outcome.size,
        "upload_id": outcome.upload_id,
        "job": outcome.job,
        "error": error,
    }


def _print_success(console: Console, outcome: Outcome) -> None:
    console.print(Text.assemble(("✓ ", "green"), _name(outcome), (f"  {decimal(outcome.size)}", "dim")))
    job = outcome.job
    if job is None:
        _row(console, screen.text("Upload", "上传编号"), outcome.upload_id or "")
        return
    pages = job.get("total_pages")
    counted = screen.text(f", {pages} page{'s' * (pages > 1)}", f"，{pages} 页") if pages else ""
    _row(console, screen.text("Job", "任务"), job["job_id"])
    _row(console, screen.text("Status", "状态"), f"{job['status']} ({job.get('user_status')}){counted}")
    if said := job.get("error_message"):
        _row(console, screen.text("Note", "说明"), said)
    _row(console, screen.text("Next", "下一步"), job.get("action_hint") or "")
    _row(console, screen.text("Follow", "跟踪"), f"penstock job {job['job_id']} --follow")


def _print_failure(console: Console, outcome: Outcome, failure: Refusal) -> None:
    console.print(Text.assemble(("✗ ", "bold red"), _name(outcome)))
    job_id = failure.details.get("job_id") if isinstance(failure, Refused) else None
    if not isinstance(failure, Refused) or not job_id:
        _say(console, failure.sentence.in_language(screen.language()))
    elif failure.code == FILE_HASH_DUPLICATE.code:
        _say(console, f"{failure.message} ({failure.code})")
        _row(console, screen.text("Job", "任务"), str(job_id))
        _row(console, screen.text("Next", "下一步"), screen.text(
            "Run it again with --allow-duplicate to make another job", "如需再建任务，请加 --allow-duplicate 重新运行"
        ))  # fmt: skip
    else:
        for said in _issues(failure):
            _say(console, said)
        _row(console, screen.text("Job", "任务"), str(job_id))


def _issues(failure: Refused) -> Iterator[str]:
    """Every reason, with what to do about it."""
    found = failure.details.get("issues") or [{"code": failure.code}]
    for issue in found:
        code = str(issue.get("code"))
        row = REGISTRY.get(code)
        message = row.message.in_language(screen.language()) if row else failure.message
        remedy = row.remedy.in_language(screen.language()) if row else failure.remedy
        where = ", ".join(str(issue[part]) for part in ("place", "detail") if issue.get(part))
        yield f"{message} ({code}{f': {where}' if where else ''}). {remedy}."


def _row(console: Console, label: str, value: str) -> None:
    screen.print_labelled(console, label, value)


def _say(console: Console, said: str) -> None:
    console.print(Padding(Text(printable(said)), (0, 0, 0, 2)) if console.is_terminal else Text(f"  {printable(said)}"))


def _name(outcome: Outcome) -> tuple[str, str]:
    return printable(outcome.path.name), "bold"
