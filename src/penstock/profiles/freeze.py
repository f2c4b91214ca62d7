"""Choosing the profile that a job keeps: what is changed later does not touch it.

The most specific version in force wins: category and industry, then category, then industry, then the default.
"""

from dataclasses import dataclass

import msgspec

from penstock.kernel import error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError
from penstock.profiles import store


@dataclass(frozen=True, slots=True)
class PrescanRules:
    """From when on a page is blank, and what speaks against a document."""

    min_text_chars_for_blank: int = 10
    max_ink_for_blank: float = 0.0005
    ocr_rate_penalty_threshold: float = 0.3
    ocr_rate_penalty_weight: float = 0.15
    no_images_penalty_weight: float = 0.1


@dataclass(frozen=True, slots=True)
class Profile:
    """One version of one profile."""

    profile_id: str
    version: str
    prescan_rules: PrescanRules
    thresholds: dict[str, float]
    confidence_weights: dict[str, float]

    @property
    def config_version(self) -> str:
        """Names it among all versions of all profiles; two profiles may each have a version 1."""
        return f"{self.profile_id}@{self.version}"


async def freeze(tx: Tx, category: str | None, industry: str | None) -> Profile:
    """PROFILE_MISSING when not even a default is active, or what is active cannot be read."""
    row = await store.in_force(tx, category, industry)
    if row is None:
        raise PenstockError(error_codes.PROFILE_MISSING, category=category, industry=industry)
    try:
        return msgspec.convert(row, Profile)
    except msgspec.ValidationError as wrong:
        named = {"profile_id": row["profile_id"], "version": row["version"]}
        raise PenstockError(error_codes.PROFILE_MISSING, **named, reason=str(wrong)) from None
