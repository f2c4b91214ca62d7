"""`penstock cancel`: no more work on a job."""

from typing import TYPE_CHECKING

import typer

from penstock.cli import screen
from penstock.cli.connection import at_server
from penstock.cli.job import job_name
from penstock.cli.options import AsJson, JobId

if TYPE_CHECKING:
    from penstock.cli.remote import Remote


def register(app: typer.Typer) -> None:
    app.command("cancel", epilog="Example: penstock cancel 3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11")(at_server(cancel))


def cancel(*, remote: "Remote", job_id: JobId, as_json: AsJson = False) -> None:
    """Cancel a job: waiting work never begins, work in hand stops at its next page. There is no way back."""
    found = remote.post(f"/api/v1/jobs/{job_name(job_id)}/cancel")
    if as_json:
        screen.print_json(found)
        return
    console = screen.console()
    console.print(f"[green]✓[/green] {screen.text('Cancelled', '已取消')}: {found['job_id']}")
    console.print(f"  {found['action_hint']}", style="dim", markup=False)
