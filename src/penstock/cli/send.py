"""`penstock send`: files go straight to the bucket, as from a phone. Run again after any interruption, it goes on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.connection import at_server
from penstock.cli.options import AsJson, Wait
from penstock.cli.token import duration

if TYPE_CHECKING:
    from penstock.cli.remote import Remote


def register(app: typer.Typer) -> None:
    app.command("send", epilog="Example: penstock send holiday.mp4 --seconds 42")(at_server(send))


def send(  # noqa: PLR0913  one parameter for each option
    *,
    remote: "Remote",
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Videos or PDF files.", show_default=False)],
    content_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Content type \\[by the file's name].")
    ] = None,
    seconds: Annotated[int | None, typer.Option(min=0, metavar="N", help="Length of the video.")] = None,
    video_id: Annotated[str | None, typer.Option("--video", metavar="ID", help="A video that waits for it.")] = None,
    chunk_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Sent and confirmed at a time, unless the bucket takes parts: 8MiB.")
    ] = "8MiB",
    wait: Wait = "5m",
    as_json: AsJson = False,
) -> None:
    """Send videos or PDF files straight to the bucket. Interrupted, run it again: it goes on where it stopped.

    The reference client of direct uploads. Exit code 0: all are complete; 1: some are not; 130: interrupted.
    """
    from penstock.cli.bucket_session import QUANTUM
    from penstock.cli.direct_sending import Sending, send_all
    from penstock.cli.uploading import chunk_bytes

    size = max(QUANTUM, chunk_bytes(chunk_size) // QUANTUM * QUANTUM)
    wish = Sending(content_type, seconds, video_id, size, duration(wait, "--wait").total_seconds())
    if not send_all(remote, files, wish, as_json=as_json):
        raise typer.Exit(1)
