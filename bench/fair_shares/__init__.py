"""Parts of the benchmark `fairness`: the system, an honest merchant's operations, a hostile merchant's attacks."""
