"""How the machine decides: thresholds, weights and rules, version by version."""
