"""`penstock rules`: the rules of a merchant."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.etl.rule_choice import MERCHANT, Merchant, caller_of
from penstock.cli.harvest.files import open_database
from penstock.cli.jobs import age
from penstock.cli.options import AsJson, Data
from penstock.cli.screen import printable
from penstock.extraction.settings import EtlSettings
from penstock.kernel.settings import SettingsFile

if TYPE_CHECKING:
    from penstock.extraction.rules import KeptRule

_PAGE = 200


def register(app: typer.Typer) -> None:
    app.callback()(list_rules)


def list_rules(
    context: typer.Context, merchant: Merchant = MERCHANT, data: Data = None, as_json: AsJson = False
) -> None:
    """Rules say which JSON is wanted of a document. Alone it lists them."""
    if context.invoked_subcommand is not None:
        return
    found = asyncio.run(_found(merchant, data))
    if as_json:
        screen.print_json([as_dict(each) for each in found])
        return
    columns = [
        screen.text("Number", "编号"), screen.text("Mode", "方式"), screen.text("Version", "版本"),
        screen.text("Changed", "修改于"), screen.text("Name", "名称"),
    ]  # fmt: skip
    console = screen.console()
    console.print(screen.table(columns, [_row(each) for each in found]))
    if len(found) == 1:
        hint = screen.text(
            "None of your own yet: `penstock rules init` writes an example, `penstock rules apply FILE` keeps it here.",
            "尚无自定义规则：penstock rules init 生成示例，penstock rules apply FILE 将其保存。",
        )
        console.print(f"\n{hint}", style="dim")


async def _found(merchant: str, data: Path | None) -> "Sequence[KeptRule]":
    from penstock.extraction.rules import find_rules

    caller, settings = caller_of(merchant), SettingsFile.find().load(EtlSettings)
    found: list[KeptRule] = []
    async with open_database(data) as database, database.transaction() as tx:
        while True:
            after = max((each.rule.rule_id for each in found), default=0)
            page = await find_rules(tx, caller, settings, after=after, limit=_PAGE)
            found += page
            if len(page) < _PAGE:
                return found


def as_dict(kept: "KeptRule") -> dict[str, Any]:
    rule = kept.rule
    return {
        "rule_id": rule.rule_id,
        "version": rule.version,
        "name": rule.name,
        "description": rule.description,
        "postprocess_mode": rule.postprocess_mode,
        "postprocess_strategy": rule.postprocess_strategy,
        "json_schema": rule.json_schema,
        "system_prompt": rule.system_prompt,
        "options": rule.options,
        "examples": rule.examples,
        "is_system": rule.is_system,
        "created_by": kept.created_by,
        "created_at": kept.created_at.isoformat() if kept.created_at else None,
        "updated_at": kept.updated_at.isoformat() if kept.updated_at else None,
    }


def _row(kept: "KeptRule") -> list[str | Text]:
    rule = kept.rule
    name = Text(printable(rule.name))
    if rule.is_system:
        name.append(screen.text(" (for everybody)", "（系统）"), style="dim")
    changed = age(kept.updated_at.isoformat()) if kept.updated_at else "–"
    return [str(rule.rule_id), rule.postprocess_mode, str(rule.version), changed, name]
