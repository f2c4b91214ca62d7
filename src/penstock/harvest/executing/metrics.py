"""What is counted of runs and batches, once what they tell of is committed.

The gauges are set by the sweep from PostgreSQL, not by who moves something: the lag of a cursor that stands still must
grow.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

from penstock.harvest.records import Counts
from penstock.kernel import error_codes
from penstock.kernel.errors import ErrorCode

_WHERE = ["source", "endpoint", "operation"]
BATCHES = Counter("penstock_harvest_batches_total", "Requests in the books, by status", [*_WHERE, "status"])
ITEMS = Counter("penstock_harvest_items_total", "Items of answers, by what became of them", [*_WHERE, "action"])
BATCH_SECONDS = Histogram(
    "penstock_harvest_batch_seconds",
    "From asking for a permit to the commit",
    _WHERE,
    buckets=[0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
)
RUNS = Counter("penstock_harvest_runs_total", "Runs of tasks, by how they ended", [*_WHERE, "outcome"])
ERRORS = Counter(
    "penstock_harvest_errors_total",
    "L1 passes by itself, L2 is about the request or the answer, L3 about one item, L4 about our credentials",
    [*_WHERE, "level"],
)
CUTS = Counter("penstock_harvest_reslices_total", "Slices that were cut while they ran", _WHERE)
QUEUED = Gauge("penstock_harvest_tasks_queued", "Tasks that wait", _WHERE, multiprocess_mode="livemax")
LAG = Gauge(
    "penstock_harvest_cursor_lag_seconds",
    "Age of the moment up to which a harvest is whole; of several questions to one endpoint, the oldest",
    _WHERE,
    multiprocess_mode="livemax",
)
_PASSING = frozenset({error_codes.SOURCE_UNAVAILABLE, error_codes.RATE_LIMITED})
_OURS = frozenset({error_codes.SOURCE_AUTH_FAILED, error_codes.CREDENTIAL_MISSING})

Place = tuple[str, str, str]


def level_of(code: ErrorCode) -> str:
    if code in _OURS:
        return "L4"
    return "L1" if code in _PASSING else "L2"


def count_batch(place: Place, counts: Counts, faults: int, seconds: float) -> None:
    BATCHES.labels(*place, "SUCCEEDED").inc()
    BATCH_SECONDS.labels(*place).observe(seconds)
    actions = {"insert": counts.inserted, "update": counts.updated, "skip": counts.skipped, "quarantine": faults}
    for action, number in actions.items():
        if number:
            ITEMS.labels(*place, action).inc(number)
    if faults:
        ERRORS.labels(*place, "L3").inc(faults)


def count_refused_item(place: Place) -> None:
    BATCHES.labels(*place, "SKIPPED").inc()
    ITEMS.labels(*place, "quarantine").inc()
    ERRORS.labels(*place, "L3").inc()


def count_cut(place: Place) -> None:
    BATCHES.labels(*place, "SKIPPED").inc()
    CUTS.labels(*place).inc()


def count_error(place: Place, code: ErrorCode) -> None:
    ERRORS.labels(*place, level_of(code)).inc()


def count_failure(place: Place, code: ErrorCode) -> None:
    """A request that is in the books and came to nothing."""
    BATCHES.labels(*place, "FAILED").inc()
    count_error(place, code)


def show_queue(rows: Iterable[Mapping[str, Any]]) -> None:
    for row in rows:
        QUEUED.labels(*_place(row)).set(row["queued"])


def show_lag(rows: Iterable[Mapping[str, Any]], now: datetime) -> None:
    for row in rows:
        LAG.labels(*_place(row)).set(max(0.0, (now - row["reached"]).total_seconds()))


def _place(row: Mapping[str, Any]) -> Place:
    return row["provenance_code"], row["endpoint_name"], row["operation_code"]
