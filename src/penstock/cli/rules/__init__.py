"""`penstock rules …`: what is wanted of documents. Each command lives in a file of its own."""

import typer

from penstock.cli.rules import apply, delete, init, listing, show, try_out

rules = typer.Typer(
    name="rules",
    help="Rules say which JSON is wanted of a document. Alone it lists them.",
    epilog="Example: penstock rules init --sample, then penstock etl invoice.pdf --rule invoice.yaml",
    invoke_without_command=True,
    rich_markup_mode="rich",
)
PARTS = (listing, init, apply, show, try_out, delete)
for part in PARTS:
    part.register(rules)


def register(app: typer.Typer) -> None:
    app.add_typer(rules)
