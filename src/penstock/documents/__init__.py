"""A file becomes a job: validated, secured, prescanned, admitted; followed, cancelled, rescued from dead workers."""

from penstock.documents.admit import admit
from penstock.documents.cancel import assert_job_running, cancel, count_cancelled
from penstock.documents.desk import Desk
from penstock.documents.following import follow, has_heard_all, is_over, job_snapshot
from penstock.documents.images import Drawing, page_image
from penstock.documents.leftovers import reactions, remove_files, sweep_admissions
from penstock.documents.limits import CallLimits
from penstock.documents.order import Order
from penstock.documents.query_store import jobs_by_status, source_of
from penstock.documents.settings import DocumentSettings

__all__ = [
    "CallLimits",
    "Desk",
    "DocumentSettings",
    "Drawing",
    "Order",
    "admit",
    "assert_job_running",
    "cancel",
    "count_cancelled",
    "follow",
    "has_heard_all",
    "is_over",
    "job_snapshot",
    "jobs_by_status",
    "page_image",
    "reactions",
    "remove_files",
    "source_of",
    "sweep_admissions",
]
