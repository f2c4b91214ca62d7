"""`penstock etl`: a PDF or picture becomes markdown and JSON, on this machine, with nothing else running."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.etl.rule_choice import MERCHANT, Merchant
from penstock.cli.options import AsJson, Data


def register(app: typer.Typer) -> None:
    app.command("etl", epilog="Example: penstock etl invoice.pdf --rule invoice.yaml")(etl)


def etl(  # noqa: PLR0913  one parameter for each option
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A PDF, PNG, JPEG, TIFF or WebP.", show_default=False)],
    *,
    rule: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="A rule file (YAML or JSON), or a rule's number as `penstock rules` lists it. Without one the JSON"
            " has no data, and nothing but the document is needed.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="A directory, or another name: PATH.md, PATH.json.", show_default=False),
    ] = None,
    pages: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Also write every page with its words and boxes.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that something else wrote.")] = False,
    merchant: Merchant = MERCHANT,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Read a PDF or picture and write NAME.md and NAME.json: offline, scans and photos too.

    With a rule the JSON has data that fits its schema, and the page and box of each value. Pictures go to NAME-images.

    Exit code 0: both are written; 1: not, and why; 130: interrupted, nothing written.
    """
    from penstock.cli.etl.carrying import Wish
    from penstock.cli.etl.outputs import choose_outputs
    from penstock.cli.etl.telling import check_source, run

    check_source(file)
    outputs = choose_outputs(file, out, pages, is_forced=force)
    run(Wish(file, rule, outputs, merchant, data), as_json=as_json)
