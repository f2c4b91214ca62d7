"""Benchmarks: one file each, `run()` returns {"name", "ratios", "figures"}.

A ratio says how fast we are against something in the same run: `vs_raw` is the bare limit, `vs_bare_loop` the same
work without our promises, `vs_<peer>` another program. Above 1 we are faster. Ratios travel between machines.
"""
