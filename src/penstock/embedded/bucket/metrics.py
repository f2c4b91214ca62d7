"""What the embedded bucket counts."""

from prometheus_client import Counter

RESUMED = Counter("penstock_bucket_resume_total", "Answers 308: more bytes are awaited")
OFFSET_MISMATCHES = Counter("penstock_bucket_offset_mismatch_total", "Chunks that did not begin where the last ended")
PRECONDITIONS_FAILED = Counter("penstock_bucket_precondition_failed_total", "Writes that another had come before")
PUSHED = Counter("penstock_bucket_notification_total", "Notifications by what came of each try", ["outcome"])
