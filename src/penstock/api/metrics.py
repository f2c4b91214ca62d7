"""Request metrics of the edge."""

from prometheus_client import Counter, Histogram

REQUESTS = Counter("gateway_request_total", "Total Gateway requests", ["method", "endpoint", "status_code"])
DURATION = Histogram(
    "gateway_request_duration_seconds",
    "Request latency",
    ["method", "endpoint"],
    buckets=[0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def method_label(method: str) -> str:
    """A stranger may send any word as a method; each new one would be a new time series."""
    return method if method in _METHODS else "OTHER"
