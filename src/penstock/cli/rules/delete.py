"""`penstock rules delete`: a rule that is no longer wanted."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.etl.rule_choice import MERCHANT, Merchant, caller_of
from penstock.cli.harvest.files import open_database
from penstock.cli.options import AsJson, Data
from penstock.cli.rules.listing import as_dict
from penstock.cli.screen import printable

if TYPE_CHECKING:
    from penstock.extraction.rules import KeptRule


def register(app: typer.Typer) -> None:
    app.command("delete", epilog="Example: penstock rules delete 7")(delete)


def delete(
    rule_id: Annotated[int, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="The rule's number.")],
    merchant: Merchant = MERCHANT,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Remove a rule. Tasks keep the version that they run with; the name is free again.

    `penstock rules show ID > FILE` beforehand keeps what it says.
    """
    gone = asyncio.run(_deleted(rule_id, merchant, data))
    if as_json:
        screen.print_json(as_dict(gone))
        return
    name = printable(gone.rule.name)
    said = screen.text(f"Rule {rule_id} ({name}) is removed.", f"已删除规则 {rule_id}（{name}）。")
    screen.console().print(Text.assemble(("✓ ", "green"), said), soft_wrap=True)


async def _deleted(rule_id: int, merchant: str, data: Path | None) -> "KeptRule":
    from penstock.extraction.rules import delete_rule

    caller = caller_of(merchant)
    async with open_database(data) as database, database.transaction() as tx:
        return await delete_rule(tx, caller, rule_id)
