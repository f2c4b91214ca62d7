"""Benchmarks: one file each, `run()` returns {"name", "ratios", "figures"}. Ratios travel between machines."""
