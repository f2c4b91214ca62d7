"""`penstock rules apply`: a rule file becomes a rule, or the next version of one."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.etl.rule_choice import MERCHANT, Merchant, caller_of, read_rule
from penstock.cli.harvest.files import open_database
from penstock.cli.options import AsJson, Data
from penstock.cli.rules.listing import as_dict
from penstock.cli.screen import printable

if TYPE_CHECKING:
    from penstock.extraction.ports import Rule
    from penstock.extraction.rules import KeptRule
    from penstock.kernel.identity import Caller


def register(app: typer.Typer) -> None:
    app.command("apply", epilog="Example: penstock rules apply invoice.yaml")(apply)


def apply(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A rule file, YAML or JSON.", show_default=False)],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Called so, instead of as the file says.", show_default=False)
    ] = None,
    merchant: Merchant = MERCHANT,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Check a rule file and keep it: a new rule, or the next version of the one of that name.

    Tasks that run already keep the version that they began with.
    """
    caller, rule = caller_of(merchant), read_rule(file)
    before, kept = asyncio.run(_applied(rule, name, caller, data))
    if as_json:
        screen.print_json(as_dict(kept) | {"changed": before != kept.rule.version})
        return
    number, version, shown = kept.rule.rule_id, kept.rule.version, printable(kept.rule.name)
    if before == version:
        said = screen.text(f"Rule {number} ({shown}) says this already.", f"规则 {number}（{shown}）没有变化。")
    elif before is None:
        said = screen.text(f"Rule {number} ({shown}) is new.", f"已新建规则 {number}（{shown}）。")
    else:
        said = screen.text(
            f"Rule {number} ({shown}) is now at version {version}.", f"规则 {number}（{shown}）现为版本 {version}。"
        )
    screen.console().print(Text.assemble(("✓ ", "green"), said), soft_wrap=True)


async def _applied(
    rule: "Rule", name: str | None, caller: "Caller", data: Path | None
) -> "tuple[int | None, KeptRule]":
    """The version before, if there was one, and the rule."""
    from penstock.extraction import rule_content, rule_store
    from penstock.extraction.providers import post_processors
    from penstock.extraction.rule_sandbox import RuleSandbox
    from penstock.extraction.rules import Terms, apply_rule
    from penstock.kernel.confined_calls import DirectCalls

    content = rule_content.content_of(rule) | ({} if name is None else {"name": name})
    modes = rule_content.MODES | frozenset(post_processors().installed())
    terms = Terms(RuleSandbox(DirectCalls()), modes)
    async with open_database(data) as database:
        async with database.transaction() as tx:
            row = await rule_store.find_named(tx, caller.merchant_id, rule_content.completed(content)["name"])
        kept = await apply_rule(database, caller, content, terms)
    return (None if row is None else row["version"]), kept
