"""Options that several commands share, and how private their files are."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        readable=False,
        help="Data directory of `penstock up` \\[PENSTOCK_HOME, else .penstock].",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
JobId = Annotated[str, typer.Argument(metavar="ID", help="The job's id, as `penstock jobs` lists it.")]
Wait = Annotated[str, typer.Option(metavar="TIME", help="For a server that goes away meanwhile: 90s, 1h.")]


def close_files_to_others() -> None:
    """Makes whatever this process and its children write from now on readable by their own account only."""
    os.umask(0o077)


class Checksum(StrEnum):
    """What each chunk of an upload is checked with on arrival."""

    SHA256 = "sha256"
    SHA1 = "sha1"
    NONE = "none"
