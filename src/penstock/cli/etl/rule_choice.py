"""Which rule a command means: a file, a rule file's name in ETL_RULES_DIR, or a number that the database knows."""

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.screen import Refusal, printable
from penstock.extraction.settings import EtlSettings
from penstock.kernel.identity import Caller, Role
from penstock.kernel.settings import SettingsFile

if TYPE_CHECKING:
    from penstock.extraction.ports import Rule
    from penstock.kernel.db import Database

Merchant = Annotated[str, typer.Option(metavar="NAME", help="The merchant whose rules and budget count.")]
MERCHANT = "local"
_ENDINGS = ("", ".yaml", ".yml", ".json")


def caller_of(merchant: str) -> Caller:
    """Whoever runs the command, as this merchant: its rules and no others."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # an account without a name
        name = "script"
    try:
        return Caller(name, merchant, Role.UPLOADER)
    except ValueError as wrong:
        raise Refusal(f"--merchant {merchant}: {wrong}.", f"--merchant {merchant}：{wrong}。") from wrong


def is_number(said: str) -> bool:
    """A file that is called so is written ./7."""
    return said.isascii() and said.isdigit() and len(said) <= 18


def rule_file(said: str) -> Path:
    """As it is, or among the rule files of ETL_RULES_DIR."""
    path = Path(said)
    if path.exists() or path.parent != Path():
        return path
    folder = SettingsFile.find().load(EtlSettings).rules_dir
    found = next((place for ending in _ENDINGS if (place := folder / f"{said}{ending}").is_file()), None)
    if found is None:
        shown = printable(said)
        raise Refusal(
            f"There is no rule {shown}: neither a file of that name, nor one in {folder}."
            " `penstock rules init` writes an example; `penstock rules` lists rules by number.",
            f"找不到规则 {shown}：既没有这个文件，{folder} 中也没有。"
            "penstock rules init 可生成示例；penstock rules 列出已有规则的编号。",
        )
    return found


def read_rule(said: str) -> "Rule":
    """Of a file. ETL_RULE_INVALID names file, line and key."""
    from penstock.extraction.providers import post_processors
    from penstock.extraction.rule_content import MODES
    from penstock.extraction.rules import load_rule

    return load_rule(rule_file(said), MODES | frozenset(post_processors().installed()))


async def numbered_rule(database: "Database", said: str, caller: Caller) -> "Rule":
    from penstock.extraction.rules import find_rule

    settings = SettingsFile.find().load(EtlSettings)
    async with database.transaction() as tx:
        return (await find_rule(tx, caller, int(said), settings)).rule
