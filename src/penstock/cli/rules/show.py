"""`penstock rules show`: one rule, as a file that `apply` takes."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from penstock.cli import screen
from penstock.cli.etl.rule_choice import MERCHANT, Merchant, caller_of
from penstock.cli.harvest.files import open_database
from penstock.cli.options import AsJson, Data
from penstock.cli.rules.listing import as_dict
from penstock.extraction.settings import EtlSettings
from penstock.kernel.settings import SettingsFile

if TYPE_CHECKING:
    from penstock.extraction.rules import KeptRule


def register(app: typer.Typer) -> None:
    app.command("show", epilog="Example: penstock rules show 7 > invoice.yaml")(show)


def show(
    rule_id: Annotated[int, typer.Argument(metavar="ID", min=1, max=2**63 - 1, help="The rule's number.")],
    merchant: Merchant = MERCHANT,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print a rule as YAML, fit for a file; --json with its number, version and dates."""
    kept = asyncio.run(_found(rule_id, merchant, data))
    if as_json:
        screen.print_json(as_dict(kept))
    else:
        sys.stdout.write(as_yaml(kept))


async def _found(rule_id: int, merchant: str, data: Path | None) -> "KeptRule":
    from penstock.extraction.rules import find_rule

    caller, settings = caller_of(merchant), SettingsFile.find().load(EtlSettings)
    async with open_database(data) as database, database.transaction() as tx:
        return await find_rule(tx, caller, rule_id, settings)


def as_yaml(kept: "KeptRule") -> str:
    """Without what is left at its default."""
    from penstock.extraction.rule_content import DEFAULTS

    rule = kept.rule
    said: dict[str, Any] = {"name": rule.name, "postprocess_mode": rule.postprocess_mode}
    for name, usual in DEFAULTS.items():
        if name not in said and (value := getattr(rule, name)) != usual:
            said[name] = value
    mark = screen.text(f"# rule {rule.rule_id}, version {rule.version}", f"# 规则 {rule.rule_id}，版本 {rule.version}")
    return f"{mark}\n" + yaml.safe_dump(said, allow_unicode=True, sort_keys=False, width=100)
