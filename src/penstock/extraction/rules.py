"""Rules: made, changed, found, and the one that a task runs with.

Invariant: a change writes the rule and one new version in one transaction; a version is never changed, and a change
that changes nothing makes none. What is written was checked in the sandbox before that transaction began. Another
merchant's rule is answered as if it did not exist. The built-in rule is no row: it is always there, the same for
everybody. A rule that is everybody's default is changed by operators only.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.extraction import rule_content, rule_store
from penstock.extraction.ports import Rule
from penstock.extraction.rule_content import BUILT_IN, BUILT_IN_ID, MODES
from penstock.extraction.rule_sandbox import RuleSandbox
from penstock.extraction.settings import EtlSettings
from penstock.kernel import error_codes, failpoints
from penstock.kernel.confined_calls import too_costly
from penstock.kernel.db import Database, Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller
from penstock.kernel.step_budget import TooCostly
from penstock.llm.ports import Example

BUILT_IN_BY = "penstock"


_ROUNDS = 5  # of a change that others overtake


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds here: where rules are checked, the post-processors that are installed, the rule for all who name none.

    Whoever works on the database itself, as the command line does, is nobody's uploader and says no default.
    """

    sandbox: RuleSandbox
    modes: Collection[str] = MODES
    default_rule: int | None = None
    most_rules: int | None = None  # of one merchant


@dataclass(frozen=True, slots=True)
class KeptRule:
    """A rule and its history. The built-in one belongs to nobody and has no dates."""

    rule: Rule
    merchant_id: str | None = None
    created_by: str = BUILT_IN_BY
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RuleVersion:
    """What a rule said once."""

    rule: Rule
    created_by: str
    created_at: datetime


def _kept(row: Mapping[str, Any], *, is_system: bool = False) -> KeptRule:
    fields = {name: row[name] for name in rule_content.FIELDS}
    rule = Rule(rule_id=row["rule_id"], version=row["version"], is_system=is_system, **fields)
    return KeptRule(rule, row["merchant_id"], row["created_by"], row["created_at"], row["updated_at"])


async def create_rule(database: Database, caller: Caller, given: Mapping[str, Any], terms: Terms) -> KeptRule:
    """ETL_RULE_INVALID with all problems; ETL_RULE_TOO_COSTLY; ETL_RULE_NAME_TAKEN; ETL_RULES_TOO_MANY."""
    content = rule_content.completed(given)
    await _check(content, caller, terms)
    async with database.transaction() as tx:
        if terms.most_rules is not None and await rule_store.count_to_add(tx, caller.merchant_id) >= terms.most_rules:
            raise PenstockError(error_codes.ETL_RULES_TOO_MANY, most=terms.most_rules)
        return _kept(await rule_store.insert(tx, caller.merchant_id, content, caller.user_id))


async def change_rule(
    database: Database, caller: Caller, rule_id: int, given: Mapping[str, Any], terms: Terms
) -> KeptRule:
    """`given` has the fields that change, and may have `version`: the one that the caller read.
    CONFIG_VERSION_CONFLICT when somebody has changed the rule since; ETL_RULE_IS_DEFAULT to all but operators."""
    version = given.get("version")
    for _ in range(_ROUNDS):
        async with database.transaction() as tx:
            seen = await _open_to(tx, caller, rule_id, version, terms.default_rule)
        content = _changed(seen, given)
        is_same = await _check(content, caller, terms, before=_content_of(seen))
        async with database.transaction() as tx:
            row = await _open_to(tx, caller, rule_id, version, terms.default_rule, locks=True)
            is_overtaken = row["version"] != seen["version"]
            if is_overtaken and _changed(row, given) != content:
                continue  # what would be written now is not what was checked
            if is_same and not is_overtaken:
                return _kept(row)
            kept = _kept(await rule_store.update(tx, rule_id, content, caller.user_id))
            failpoints.reach("etl.rule_changed")
            return kept
    raise PenstockError(error_codes.CONFIG_VERSION_CONFLICT, given=version, newest=row["version"])


async def apply_rule(database: Database, caller: Caller, given: Mapping[str, Any], terms: Terms) -> KeptRule:
    """The merchant's rule of that name says this afterwards: made, given a new version, or as it was."""
    content = rule_content.completed(given)
    async with database.transaction() as tx:
        row = await rule_store.find_named(tx, caller.merchant_id, content["name"])
    if row is None:
        return await create_rule(database, caller, content, terms)
    return await change_rule(database, caller, row["rule_id"], content, terms)


def _content_of(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in rule_content.FIELDS}


def _changed(row: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    changes = {key: value for key, value in given.items() if key != "version"}
    return rule_content.completed({**_content_of(row), **changes})


async def _check(
    content: Mapping[str, Any], caller: Caller, terms: Terms, before: Mapping[str, Any] | None = None
) -> bool:
    """Whether it says the same as before. Asks the sandbox, so no transaction may be open."""
    checked = await terms.sandbox.check(content, terms.modes, caller.merchant_id, before)
    if checked.problems:
        raise PenstockError(error_codes.ETL_RULE_INVALID, problems=checked.problems)
    return checked.is_same


async def delete_rule(
    tx: Tx, caller: Caller, rule_id: int, version: int | None = None, *, default_rule: int | None = None
) -> KeptRule:  # fmt: skip
    """What it said last. Tasks keep the version that they run with; the name is free again."""
    row = await _open_to(tx, caller, rule_id, version, default_rule, locks=True)
    await rule_store.mark_deleted(tx, rule_id)
    return _kept(row)


async def _open_to(  # noqa: PLR0913  what may speak against it
    tx: Tx, caller: Caller, rule_id: int, version: Any, default_rule: int | None, *, locks: bool = False
) -> dict[str, Any]:
    """The rule, if the caller may change it."""
    if rule_id == BUILT_IN_ID:
        raise PenstockError(error_codes.ETL_RULE_BUILT_IN)
    if rule_id == default_rule and not caller.sees_all:
        raise PenstockError(error_codes.ETL_RULE_IS_DEFAULT, rule_id=rule_id)
    row = await (rule_store.lock(tx, rule_id) if locks else rule_store.find(tx, rule_id))
    if row is None or not caller.sees(row["merchant_id"]):
        raise PenstockError(error_codes.ETL_RULE_NOT_FOUND, rule_id=rule_id)
    if version is not None and version != row["version"]:
        raise PenstockError(error_codes.CONFIG_VERSION_CONFLICT, given=version, newest=row["version"])
    return row


async def find_rule(tx: Tx, caller: Caller, rule_id: int, settings: EtlSettings) -> KeptRule:
    """ETL_RULE_NOT_FOUND also for another merchant's, unless it is the default for everybody."""
    if rule_id == BUILT_IN_ID:
        return KeptRule(BUILT_IN)
    row = await rule_store.find(tx, rule_id)
    is_default = rule_id == settings.global_rule_id
    if row is None or not (is_default or caller.sees(row["merchant_id"])):
        raise PenstockError(error_codes.ETL_RULE_NOT_FOUND, rule_id=rule_id)
    return _kept(row, is_system=is_default)


async def find_rules(
    tx: Tx, caller: Caller, settings: EtlSettings, *, after: int = 0, limit: int = 50
) -> list[KeptRule]:
    """Up to `limit` by number, beginning after one; the built-in rule is the first."""
    merchant, default = None if caller.sees_all else caller.merchant_id, settings.global_rule_id
    first = [KeptRule(BUILT_IN)] if after < BUILT_IN_ID else []
    rows = await rule_store.listed(tx, merchant, max(after, BUILT_IN_ID), limit, also=default)
    return [*first, *(_kept(row, is_system=row["rule_id"] == default) for row in rows)][:limit]


async def rule_for(tx: Tx, rule_id: int | None, caller: Caller, settings: EtlSettings) -> Rule:
    """The rule that a task runs with. ETL_RULE_NOT_FOUND; ETL_RULE_REQUIRED where there is no default."""
    if rule_id is not None:
        return (await find_rule(tx, caller, rule_id, settings)).rule
    if not settings.global_rule_enabled:
        raise PenstockError(error_codes.ETL_RULE_REQUIRED)
    default = BUILT_IN_ID if settings.global_rule_id is None else settings.global_rule_id
    return (await find_rule(tx, caller, default, settings)).rule


async def examples_of(tx: Tx, rule_id: int, version: int) -> list[Example]:
    """Of the very version that a task runs with. Versions are never removed: ETL_RULE_NOT_FOUND is a fault."""
    found = await rule_store.examples_of(tx, rule_id, version)
    if found is None:
        raise PenstockError(error_codes.ETL_RULE_NOT_FOUND, rule_id=rule_id, version=version)
    return found


def load_rule(path: Path, modes: Collection[str] = MODES) -> Rule:
    """Of a YAML or JSON file, for the command line; it has no number. ETL_RULE_INVALID names file, line and key."""
    from penstock.extraction.rule_file import read_rule_file

    try:
        content, problems = read_rule_file(path, modes)
    except TooCostly as spent:
        raise too_costly("STEPS", spent.part) from None
    if content is None:
        raise PenstockError(error_codes.ETL_RULE_INVALID, problems=[each.as_dict() for each in problems])
    return rule_content.rule_of(content, 0, 0)
