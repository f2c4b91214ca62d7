"""Benchmarks: one file each, `run()` returns {"name", "ratios", "figures"}. Ratios hold on any machine; figures do not."""
