"""Who may call what: the one table. A route that is not in it keeps the application from starting."""

from collections.abc import Mapping

from penstock.kernel.identity.access import ADMINS, CONNECTING, ENDING, OPERATIONS, SENDING, SIGNED_IN, Roles

PUBLIC: None = None  # no token is asked for

UPLOADS = "/api/v1/uploads"  # outside the limit on calls: one upload is many. Its beginning and its end are counted
OWN_TOKENS = ("/_/gcs/callback",)  # check a token of their own before they read the body
LARGE_BODIES = ("/api/v1/etl/rules", "/api/v1/harvest/")  # rules and sources may be up to a MiB, all others 16 KiB

ACCESS: Mapping[tuple[str, str], Roles | None] = {
    # people
    ("GET", "/"): PUBLIC,
    ("GET", "/docs"): PUBLIC,
    ("GET", "/docs/{asset}"): PUBLIC,
    ("GET", "/openapi.json"): PUBLIC,
    ("GET", "/sign-in"): PUBLIC,
    # machines that watch
    ("GET", "/health"): PUBLIC,
    ("GET", "/health/live"): PUBLIC,
    ("GET", "/health/ready"): PUBLIC,
    ("GET", "/metrics"): PUBLIC,
    # sessions
    ("POST", "/api/v1/session"): PUBLIC,
    ("DELETE", "/api/v1/session"): PUBLIC,
    ("GET", "/api/v1/me"): SIGNED_IN,
    # files come in
    ("OPTIONS", "/api/v1/uploads"): PUBLIC,
    ("POST", "/api/v1/uploads"): CONNECTING,
    ("OPTIONS", "/api/v1/uploads/{upload_id}"): PUBLIC,
    ("HEAD", "/api/v1/uploads/{upload_id}"): CONNECTING,
    ("PATCH", "/api/v1/uploads/{upload_id}"): CONNECTING,
    ("DELETE", "/api/v1/uploads/{upload_id}"): CONNECTING,
    # files that phones send straight to the bucket
    ("POST", "/api/v1/direct-uploads"): SENDING,
    ("GET", "/api/v1/direct-uploads"): SIGNED_IN,
    ("GET", "/api/v1/direct-uploads/{upload_id}"): SIGNED_IN,
    ("POST", "/api/v1/direct-uploads/{upload_id}/parts"): SENDING,
    ("POST", "/api/v1/direct-uploads/{upload_id}/complete"): SENDING,
    ("POST", "/_/gcs/callback"): PUBLIC,  # the token is the notification's own
    ("POST", "/api/v1/videos"): SENDING,
    ("GET", "/api/v1/videos"): SIGNED_IN,
    ("GET", "/api/v1/videos/{video_id}"): SIGNED_IN,
    ("POST", "/api/v1/videos/{video_id}/status"): OPERATIONS,
    # what goes on
    ("GET", "/api/v1/dashboard/events"): SIGNED_IN,
    ("GET", "/api/v1/workers"): OPERATIONS,
    ("GET", "/api/v1/deliveries"): OPERATIONS,
    ("POST", "/api/v1/deliveries/{delivery_id}/redeliver"): OPERATIONS,
    # ETL
    ("POST", "/api/v1/etl/submit"): ENDING,
    ("GET", "/api/v1/etl/tasks"): SIGNED_IN,
    ("GET", "/api/v1/etl/tasks/{task_id}"): SIGNED_IN,
    ("POST", "/api/v1/etl/tasks/{task_id}/retry"): ENDING,
    ("POST", "/api/v1/etl/tasks/{task_id}/cancel"): ENDING,
    ("GET", "/api/v1/etl/tasks/{task_id}/markdown"): SIGNED_IN,
    ("GET", "/api/v1/etl/tasks/{task_id}/pages/{page_number}"): SIGNED_IN,
    ("GET", "/api/v1/etl/tasks/{task_id}/result"): SIGNED_IN,
    ("GET", "/api/v1/etl/tasks/{task_id}/images/{name}"): SIGNED_IN,
    ("GET", "/api/v1/etl/rules"): SIGNED_IN,
    ("POST", "/api/v1/etl/rules"): ENDING,
    ("GET", "/api/v1/etl/rules/{rule_id}"): SIGNED_IN,
    ("PUT", "/api/v1/etl/rules/{rule_id}"): ENDING,
    ("DELETE", "/api/v1/etl/rules/{rule_id}"): ENDING,
    ("GET", "/api/v1/etl/rules/{rule_id}/versions"): SIGNED_IN,
    ("GET", "/api/v1/etl/rules/{rule_id}/versions/{version}"): SIGNED_IN,
    ("POST", "/api/v1/etl/rules/{rule_id}/try"): ENDING,
    # jobs
    ("POST", "/api/v1/jobs"): ENDING,  # operators act for merchants
    ("GET", "/api/v1/jobs"): SIGNED_IN,
    ("GET", "/api/v1/jobs/{job_id}"): SIGNED_IN,
    ("GET", "/api/v1/jobs/{job_id}/pages"): SIGNED_IN,
    ("GET", "/api/v1/jobs/{job_id}/pages/{page_number}"): SIGNED_IN,
    ("GET", "/api/v1/jobs/{job_id}/pages/{page_number}/image"): SIGNED_IN,
    ("GET", "/api/v1/jobs/{job_id}/skus"): SIGNED_IN,
    ("GET", "/api/v1/jobs/{job_id}/result"): SIGNED_IN,
    ("GET", "/api/v1/jobs/{job_id}/progress"): SIGNED_IN,
    ("GET", "/api/v1/jobs/{job_id}/evaluation"): SIGNED_IN,
    ("GET", "/api/v1/jobs/{job_id}/timeline"): SIGNED_IN,
    ("GET", "/api/v1/jobs/{job_id}/events"): SIGNED_IN,
    ("POST", "/api/v1/jobs/{job_id}/cancel"): ENDING,
    ("POST", "/api/v1/jobs/{job_id}/requeue"): OPERATIONS,
    # harvest: records of other systems belong to no merchant
    ("GET", "/api/v1/harvest/sources"): OPERATIONS,
    ("GET", "/api/v1/harvest/sources/{code}"): OPERATIONS,
    ("PUT", "/api/v1/harvest/sources/{code}"): ADMINS,  # a source's address is where our credentials go
    ("GET", "/api/v1/harvest/sources/{code}/explain"): OPERATIONS,
    ("POST", "/api/v1/harvest/plans"): OPERATIONS,
    ("POST", "/api/v1/harvest/plans/preview"): OPERATIONS,
    ("GET", "/api/v1/harvest/plans/{plan_id}"): OPERATIONS,
    ("GET", "/api/v1/harvest/tasks"): OPERATIONS,
    ("GET", "/api/v1/harvest/cursors"): OPERATIONS,
    ("GET", "/api/v1/harvest/cursors/events"): OPERATIONS,
    ("GET", "/api/v1/harvest/records/{source}"): OPERATIONS,
    ("GET", "/api/v1/harvest/records/{source}/{endpoint}/item"): OPERATIONS,
    ("POST", "/api/v1/harvest/signals"): OPERATIONS,
    ("GET", "/api/v1/harvest/quarantine"): OPERATIONS,
    # a merchant's own servers
    ("GET", "/api/v1/webhooks"): CONNECTING,
    ("POST", "/api/v1/webhooks"): CONNECTING,
    ("DELETE", "/api/v1/webhooks/{endpoint_id}"): CONNECTING,
}


def counts_as_upload(method: str, path: str) -> bool:
    """Whether a call is counted by the limit on uploads."""
    return path.startswith(UPLOADS) and method in ("POST", "DELETE")


def is_counted(method: str, path: str) -> bool:
    """Whether a call of somebody who is signed in is counted at all."""
    return not path.startswith(UPLOADS) or counts_as_upload(method, path)
