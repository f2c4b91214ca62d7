"""Lists of rules and of their versions, without what they say: a hundred large rules are not one answer.

Sizes are those of the stored values, which PostgreSQL knows without reading them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from penstock.extraction import rule_content, rule_store
from penstock.extraction.rule_content import BUILT_IN, BUILT_IN_ID
from penstock.extraction.rules import BUILT_IN_BY, RuleVersion
from penstock.extraction.settings import EtlSettings
from penstock.kernel import error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller


@dataclass(frozen=True, slots=True)
class RuleSummary:
    """What a list shows of a rule. The built-in one belongs to nobody and has no dates."""

    rule_id: int
    version: int
    name: str
    description: str
    postprocess_mode: str
    postprocess_strategy: str | None
    stored_bytes: int = 0
    is_system: bool = False
    merchant_id: str | None = None
    created_by: str = BUILT_IN_BY
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class VersionSummary:
    """That there was a version, and who made it."""

    version: int
    stored_bytes: int
    created_by: str
    created_at: datetime


_BUILT_IN = RuleSummary(
    BUILT_IN.rule_id, BUILT_IN.version, BUILT_IN.name, BUILT_IN.description, BUILT_IN.postprocess_mode,
    BUILT_IN.postprocess_strategy, is_system=True,
)  # fmt: skip


async def list_rules(
    tx: Tx, caller: Caller, settings: EtlSettings, *, after: int = 0, limit: int = 50
) -> list[RuleSummary]:
    """Up to `limit` by number, beginning after one; the built-in rule is the first."""
    merchant, default = None if caller.sees_all else caller.merchant_id, settings.global_rule_id
    first = [_BUILT_IN] if after < BUILT_IN_ID else []
    rows = await rule_store.summaries(tx, merchant, max(after, BUILT_IN_ID), limit, also=default)
    return [*first, *(RuleSummary(**row, is_system=row["rule_id"] == default) for row in rows)][:limit]


async def list_versions(
    tx: Tx, caller: Caller, rule_id: int, *, before: int | None = None, limit: int = 50
) -> list[VersionSummary]:
    """The newest first. Of a rule that is there."""
    await _visible(tx, caller, rule_id)
    return [VersionSummary(**row) for row in await rule_store.version_summaries(tx, rule_id, before, limit)]


async def find_version(tx: Tx, caller: Caller, rule_id: int, version: int) -> RuleVersion:
    """What a rule that is there said once; ETL_RULE_NOT_FOUND also where it has no such version."""
    await _visible(tx, caller, rule_id)
    row = await rule_store.find_version(tx, rule_id, version)
    if row is None:
        raise PenstockError(error_codes.ETL_RULE_NOT_FOUND, rule_id=rule_id, version=version)
    return RuleVersion(rule_content.rule_of(row["content"], rule_id, version), row["created_by"], row["created_at"])


async def _visible(tx: Tx, caller: Caller, rule_id: int) -> Mapping[str, Any]:
    row = await rule_store.find(tx, rule_id)
    if row is None or not caller.sees(row["merchant_id"]):
        raise PenstockError(error_codes.ETL_RULE_NOT_FOUND, rule_id=rule_id)
    return row
