"""What operators watch about event streams."""

from prometheus_client import Counter, Gauge

ACTIVE_CONNECTIONS = Gauge("gateway_sse_active_connections", "Active SSE connections", multiprocess_mode="livesum")
QUEUE_OVERFLOW = Counter("gateway_sse_queue_overflow", "Events dropped because a reader was too slow")
SNAPSHOTS = Counter("gateway_sse_snapshots", "Snapshots sent to clients whose place was unknown or lost")
