"""Metrics of gRPC calls."""

from prometheus_client import Counter, Histogram

CALLS = Counter("penstock_rpc_call_total", "gRPC calls", ["method", "code"])
DURATION = Histogram(
    "penstock_rpc_call_duration_seconds",
    "Latency of gRPC calls",
    ["method"],
    buckets=[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
)
