"""`penstock harvest schema`: the JSON Schema of source files, for editors."""

import sys

import typer


def register(app: typer.Typer) -> None:
    app.command("schema", epilog="Example: penstock harvest schema > source.schema.json")(schema)


def schema() -> None:
    """Print the JSON Schema of source files.

    A file that starts with `# yaml-language-server: $schema=source.schema.json` is completed and checked by editors.
    """
    from penstock.harvest.registry.schema import schema_text

    sys.stdout.write(schema_text())
