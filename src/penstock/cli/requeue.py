"""`penstock requeue`: an orphaned job goes to a living worker."""

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli import screen
from penstock.cli.connection import at_server
from penstock.cli.job import job_name
from penstock.cli.options import AsJson, JobId

if TYPE_CHECKING:
    from penstock.cli.remote import Remote


def register(app: typer.Typer) -> None:
    app.command("requeue", epilog="Example: penstock requeue 3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11 --force")(
        at_server(requeue)
    )


def requeue(
    *,
    remote: "Remote",
    job_id: JobId,
    worker: Annotated[
        str | None, typer.Option(metavar="NAME", help="To this worker; else to the one with the fewest jobs.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Although it was requeued too often today.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give a job whose worker died to a living one; it goes on after its last checkpoint. For operators."""
    body = {"force": force, **({"target_worker": worker} if worker else {})}
    found = remote.post(f"/api/v1/jobs/{job_name(job_id)}/requeue", body)
    if as_json:
        screen.print_json(found)
        return
    page, today = found["resume_from"], found["requeues_today"]
    screen.console().print(f"[green]✓[/green] {found['job_id']}")
    screen.console().print(
        "  "
        + screen.text(
            f"{found['worker_id']} goes on after page {page}; requeued {today} times within 24 hours.",
            f"由 {found['worker_id']} 从第 {page} 页之后继续；24 小时内已重提 {today} 次。",
        ),
        markup=False,
    )
