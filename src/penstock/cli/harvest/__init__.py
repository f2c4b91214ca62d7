"""`penstock harvest …`: records of other systems. Each command lives in a file of its own."""

import typer

from penstock.cli.harvest import (
    apply,
    backfill,
    cursors,
    explain,
    export,
    init,
    plan,
    records,
    run,
    schema,
    sources,
    standin,
    status,
    update,
)  # fmt: skip

harvest = typer.Typer(
    name="harvest",
    help="Records of other systems, fetched through their APIs: once each, within their limits.",
    epilog="Example: penstock harvest run crossref --standin",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
PARTS = (
    sources, init, apply, explain, schema, run, plan, backfill, update, status, cursors, records, export, standin,
)  # fmt: skip
for part in PARTS:
    part.register(harvest)


def register(app: typer.Typer) -> None:
    app.add_typer(harvest)
