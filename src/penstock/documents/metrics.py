"""What is counted of jobs."""

from prometheus_client import Counter, Histogram

CREATED = Counter("gateway_job_created_total", "Jobs created", ["status"])
CANCELLED = Counter("gateway_job_cancelled_total", "Jobs cancelled")
CHECK_SECONDS = Histogram(
    "gateway_security_check_duration_seconds", "PDF security check time", buckets=[0.1, 0.5, 1, 5, 10, 30]
)
REJECTED = Counter("gateway_security_rejected_total", "PDFs rejected by security", ["reason"])


def rejected(codes: list[str]) -> None:
    """`encrypted_pdf`, `javascript_embedded`, …: the codes without their family."""
    for code in codes:
        if code.startswith("SECURITY_"):
            REJECTED.labels(code.removeprefix("SECURITY_").lower()).inc()
