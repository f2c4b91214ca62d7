"""Request metrics of the edge (000 §9) and the page Prometheus reads."""

import os

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

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


def page(accept: str) -> tuple[bytes, str]:
    """All metrics of this process, or of all processes that share PROMETHEUS_MULTIPROC_DIR; and its content type."""
    registry = REGISTRY
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type
