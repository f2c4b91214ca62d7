"""The SQL of profiles."""

from typing import Any

from penstock.kernel.db import Tx, fetch_one


async def in_force(tx: Tx, category: str | None, industry: str | None) -> dict[str, Any] | None:
    """The most specific active version, the newest among equals."""
    return await fetch_one(
        tx,
        "select * from threshold_profiles where is_active and effective_from <= now()"
        " and (category is null or category = %(category)s) and (industry is null or industry = %(industry)s)"
        " order by category is not null desc, industry is not null desc, effective_from desc, id desc limit 1",
        {"category": category, "industry": industry},
    )
