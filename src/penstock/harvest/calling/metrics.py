"""What is counted of requests to sources."""

from prometheus_client import Counter, Histogram

_WHERE = ["source", "endpoint", "operation"]
REQUESTS = Counter("penstock_harvest_requests_total", "Requests sent, by what became of them", [*_WHERE, "outcome"])
TOO_MANY = Counter("penstock_harvest_429_total", "Answers that said: too many requests", _WHERE)
RETRIES = Counter("penstock_harvest_retries_total", "Requests sent again", _WHERE)
HTTP_SECONDS = Histogram(
    "penstock_harvest_http_seconds",
    "From sending a request to the last byte of its answer",
    ["source", "endpoint"],
    buckets=[0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
)
WAIT_SECONDS = Histogram(
    "penstock_harvest_permit_wait_seconds",
    "Waiting for the rate limit",
    ["source", "endpoint"],
    buckets=[0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30],
)
PERMITS_REFUSED = Counter("penstock_harvest_permits_refused_total", "Permits not given", [*_WHERE, "reason"])
