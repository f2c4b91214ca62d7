"""What operators see of uploads."""

from prometheus_client import Counter, Gauge

ACTIVE = Gauge("gateway_upload_active", "Requests that are sending bytes of uploads now")
BYTES = Counter("gateway_upload_bytes_total", "Bytes received for uploads")
TAKEN_OVER = Counter("gateway_upload_taken_over_total", "Uploads taken over from a writer that was frozen")
EXPIRED = Counter("gateway_upload_expired_total", "Uploads removed because nobody went on with them")
