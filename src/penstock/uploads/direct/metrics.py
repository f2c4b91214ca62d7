"""What operators see of direct uploads."""

from prometheus_client import Counter, Histogram

OPENED = Counter("penstock_direct_init_total", "Uploads asked for, by what came of it", ["outcome"])
OPENING_SECONDS = Histogram("penstock_direct_init_seconds", "Time to answer who asks for an upload")
CALLED_BACK = Counter("penstock_direct_callback_total", "Notifications of the bucket, by what came of it", ["outcome"])
CALLED_AGAIN = Counter(
    "penstock_direct_callback_again_total", "Notifications that were tried before, where the subscription counts"
)
CALLBACK_DELAY = Histogram(
    "penstock_direct_callback_delay_seconds",
    "From the end of an upload in the bucket to its record here",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60, 300, 3600),
)
MD5_MISMATCHES = Counter("penstock_direct_md5_mismatch_total", "Objects that were not what was announced")
OVERWRITES = Counter("penstock_direct_generation_violation_total", "Objects that replaced one that was complete")
LEFT_BEHIND = Counter(
    "penstock_direct_left_behind_total", "Wrong objects that stay in a bucket used before, which cannot be reached"
)
EXPIRED = Counter("penstock_direct_session_expired_total", "Uploads given up because the object never came")
RECONCILED = Counter("penstock_direct_reconciled_total", "Uploads found in the bucket without a notification")
ATTENDED = Counter(
    "penstock_direct_attended_total", "Uploads that workers looked after, by their state and what came of it",
    ["status", "outcome"],
)  # fmt: skip
