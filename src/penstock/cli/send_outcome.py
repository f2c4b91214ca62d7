"""What became of a file that was sent to the bucket."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.filesize import decimal
from rich.markup import escape

from penstock.cli import screen
from penstock.cli.remote import Refused
from penstock.cli.screen import Refusal, printable
from penstock.kernel import json


@dataclass(slots=True)
class Sent:
    """One file of the command."""

    path: Path
    size: int = 0
    upload: dict[str, Any] | None = None
    failure: Refusal | None = None

    @property
    def trouble(self) -> dict[str, Any] | None:
        """The upload, or the film that it became, whichever has failed."""
        upload = self.upload or {}
        return next((each for each in (upload, upload.get("video") or {}) if each.get("error_code")), None)

    @property
    def is_well(self) -> bool:
        return self.failure is None and self.trouble is None and (self.upload or {}).get("status") == "completed"


def print_sent(sent: Sent, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(_document(sent)) + "\n")
        sys.stdout.flush()
        return
    name, upload = escape(printable(sent.path.name)), sent.upload or {}
    console = screen.console()
    if sent.failure is not None:
        console.print(f"[red]✗[/] {name}: {escape(sent.failure.sentence.in_language(screen.language()))}")
    elif sent.trouble is not None:
        console.print(f"[red]✗[/] {name}: {escape(str(sent.trouble['error_message']))} ({sent.trouble['error_code']})")
    elif sent.is_well:
        became = next((f"{kind} {upload[f'{kind}_id']}" for kind in ("video", "job") if upload.get(f"{kind}_id")), "")
        console.print(f"[green]✓[/] {name} ({decimal(sent.size)}) → {became or upload['object_name']}")
    else:
        said = screen.text(
            "sent; Penstock has not heard of it from the bucket yet, and goes on looking",
            "已发送；Penstock 尚未收到存储桶的通知，将继续核对",
        )
        console.print(f"[yellow]…[/] {name}: {said} ({upload.get('upload_id')})")


def _document(sent: Sent) -> dict[str, Any]:
    error: dict[str, Any] | None = None
    if isinstance(sent.failure, Refused):
        error = {"code": sent.failure.code, "message": sent.failure.message, "remedy": sent.failure.remedy}
    elif sent.failure is not None:
        error = {"code": None, "message": sent.failure.sentence.in_language(screen.language())}
    return {"file": str(sent.path), "size": sent.size, "upload": sent.upload, "error": error}
