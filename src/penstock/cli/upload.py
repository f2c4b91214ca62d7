"""`penstock upload`: files become jobs. Run again after any interruption, it goes on where it stopped."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connection import at_server
from penstock.cli.options import AsJson, Checksum, Wait
from penstock.cli.token import duration

if TYPE_CHECKING:
    from penstock.cli.remote import Remote


def register(app: typer.Typer) -> None:
    app.command("upload", epilog="Example: penstock upload spring.pdf autumn.pdf --category furniture")(
        at_server(upload)
    )


def upload(  # noqa: PLR0913  one parameter for each option
    *,
    remote: "Remote",
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="PDF files.", show_default=False)],
    category: Annotated[str | None, typer.Option(metavar="NAME", help="What they show, such as furniture.")] = None,
    industry: Annotated[str | None, typer.Option(metavar="NAME", help="Where they come from, such as retail.")] = None,
    allow_duplicate: Annotated[
        bool, typer.Option("--allow-duplicate", help="Also files that are here already.")
    ] = False,
    act_for: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Make the jobs for this merchant: operators, admins, tokens that list it."),
    ] = None,
    no_job: Annotated[bool, typer.Option("--no-job", help="Upload only; make no job.")] = False,
    chunk_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Sent and confirmed at a time: 1MiB, 64MiB.")
    ] = "8MiB",
    checksum: Annotated[Checksum, typer.Option(help="What each chunk is checked with.")] = Checksum.SHA256,
    wait: Wait = "5m",
    as_json: AsJson = False,
) -> None:
    """Upload PDF files and make a job of each. Interrupted, run it again: it goes on where it stopped.

    Exit code 0: all are jobs now (or uploaded, with --no-job); 1: some are not; 130: interrupted.
    """
    from penstock.cli.uploading import Pace, Wish, chunk_bytes, upload_all

    lasting, size = duration(wait, "--wait").total_seconds(), chunk_bytes(chunk_size)
    wish = Wish(category, industry, allow_duplicate, no_job, act_for)
    sent = upload_all(remote, files, wish, Pace(lasting, size, checksum), as_json=as_json)
    if not sent:
        raise typer.Exit(1)
