"""How the machine decides: thresholds, weights and rules, version by version."""

from penstock.profiles.freeze import PrescanRules, Profile, freeze

__all__ = ["PrescanRules", "Profile", "freeze"]
