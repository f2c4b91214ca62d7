"""Options that several commands share."""

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
