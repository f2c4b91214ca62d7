"""What operators see of ETL."""

from prometheus_client import Counter, Histogram

ENDED = Counter("penstock_etl_tasks_total", "Tasks that ended", ["status"])
FAILURES = Counter("penstock_etl_stage_failures_total", "Attempts of a stage that failed", ["stage", "code"])
STAGE_SECONDS = Histogram(
    "penstock_etl_stage_seconds", "Time of one attempt of a stage", ["stage"],
    buckets=(0.05, 0.2, 1, 5, 20, 60, 300, 1200, 3600),
)  # fmt: skip
