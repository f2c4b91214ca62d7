"""The states of a job and of its pages. They are frozen: screens and other systems know these names."""

from enum import StrEnum

from penstock.kernel.statemachine import Machine, arrow


class JobStatus(StrEnum):
    """Where a job stands."""

    UPLOADED = "UPLOADED"  # admitted; nothing has looked at its pages yet
    EVALUATING = "EVALUATING"  # the evaluator judges how far the machine can be trusted with it
    EVAL_FAILED = "EVAL_FAILED"  # the evaluator could not; people take over
    EVALUATED = "EVALUATED"  # judged, and its route is chosen
    PROCESSING = "PROCESSING"  # workers go through its pages
    PARTIAL_FAILED = "PARTIAL_FAILED"  # some pages failed
    PARTIAL_IMPORTED = "PARTIAL_IMPORTED"  # the machine's part is imported, people's part is not
    DEGRADED_HUMAN = "DEGRADED_HUMAN"  # people do all of it
    FULL_IMPORTED = "FULL_IMPORTED"  # the end: everything is imported
    REJECTED = "REJECTED"  # the end: the file is not one we take
    ORPHANED = "ORPHANED"  # its worker died; it waits for another
    CANCELLED = "CANCELLED"  # the end: somebody wanted no more of it


class PageStatus(StrEnum):
    """Where a page stands."""

    PENDING = "PENDING"  # known, and nobody's yet
    BLANK = "BLANK"  # the end: there is nothing on it
    AI_QUEUED = "AI_QUEUED"  # the machine will do it
    AI_PROCESSING = "AI_PROCESSING"  # a worker holds it
    AI_COMPLETED = "AI_COMPLETED"  # the machine is done; import follows
    AI_FAILED = "AI_FAILED"  # the machine failed; again, or a person
    HUMAN_QUEUED = "HUMAN_QUEUED"  # a person will do it
    HUMAN_PROCESSING = "HUMAN_PROCESSING"  # a person holds it
    HUMAN_COMPLETED = "HUMAN_COMPLETED"  # the person is done; import follows
    IMPORTED_CONFIRMED = "IMPORTED_CONFIRMED"  # the end: imported, and the receiver said so
    IMPORTED_ASSUMED = "IMPORTED_ASSUMED"  # the end: imported, and nobody said otherwise
    IMPORT_FAILED = "IMPORT_FAILED"  # the receiver refused; again
    SKIPPED = "SKIPPED"  # the end: a person found nothing to do
    DEAD_LETTER = "DEAD_LETTER"  # the end: nobody could do it


_Job, _Page = JobStatus, PageStatus
_JOB_ENDS = frozenset({_Job.FULL_IMPORTED, _Job.REJECTED, _Job.CANCELLED})

JOB = Machine(
    entity="job",
    table="pdf_jobs",
    key="job_id",
    merchant_column="merchant_id",
    states=JobStatus,
    terminal=_JOB_ENDS,
    arrows=[
        arrow(None, _Job.UPLOADED, "gateway", "job_created"),
        arrow(None, _Job.REJECTED, "gateway", "job_failed"),
        arrow(None, _Job.DEGRADED_HUMAN, "gateway", "human_needed"),
        arrow(_Job.UPLOADED, _Job.EVALUATING, "gateway"),
        arrow(_Job.UPLOADED, _Job.REJECTED, "gateway", "job_failed"),
        arrow(_Job.EVALUATING, _Job.EVALUATED, "evaluator"),
        arrow(_Job.EVALUATING, _Job.EVAL_FAILED, "evaluator", "job_failed"),
        arrow([_Job.EVALUATING, _Job.EVAL_FAILED], _Job.DEGRADED_HUMAN, "evaluator", "human_needed"),
        arrow(_Job.EVALUATED, _Job.PROCESSING, "pipeline"),
        arrow(_Job.EVALUATED, _Job.DEGRADED_HUMAN, "pipeline", "human_needed"),
        arrow(_Job.PROCESSING, _Job.FULL_IMPORTED, "pipeline, output", "job_completed"),
        arrow(_Job.PROCESSING, _Job.PARTIAL_IMPORTED, "pipeline, output", "job_completed"),
        arrow(_Job.PROCESSING, _Job.PARTIAL_FAILED, "pipeline"),
        arrow([_Job.PROCESSING, _Job.EVALUATING], _Job.ORPHANED, "gateway", "job_failed"),
        arrow(_Job.PARTIAL_FAILED, _Job.PARTIAL_IMPORTED, "collaboration"),
        arrow([_Job.PARTIAL_IMPORTED, _Job.DEGRADED_HUMAN], _Job.FULL_IMPORTED, "output", "job_completed"),
        arrow(_Job.ORPHANED, _Job.PROCESSING, "gateway"),
        arrow([state for state in _Job if state not in _JOB_ENDS], _Job.CANCELLED, "api", "job_failed"),
    ],
)

_IMPORTED = (_Page.IMPORTED_CONFIRMED, _Page.IMPORTED_ASSUMED)
PAGE = Machine(
    entity="page",
    table="pages",
    key="id",
    states=PageStatus,
    terminal=frozenset({_Page.BLANK, _Page.SKIPPED, _Page.DEAD_LETTER, *_IMPORTED}),
    arrows=[
        arrow(None, _Page.PENDING, "gateway"),
        arrow(None, _Page.BLANK, "gateway", "pages_batch_update"),
        arrow(_Page.PENDING, _Page.BLANK, "pipeline", "pages_batch_update"),
        arrow(_Page.PENDING, _Page.AI_QUEUED, "pipeline", "pages_batch_update"),
        arrow(_Page.PENDING, _Page.HUMAN_QUEUED, "pipeline"),
        arrow(_Page.AI_QUEUED, _Page.AI_PROCESSING, "pipeline"),
        arrow(_Page.AI_PROCESSING, _Page.AI_COMPLETED, "pipeline", "page_completed"),
        arrow(_Page.AI_PROCESSING, _Page.AI_FAILED, "pipeline"),
        arrow(_Page.AI_FAILED, _Page.AI_QUEUED, "pipeline"),
        arrow(_Page.AI_FAILED, _Page.HUMAN_QUEUED, "pipeline", "human_needed"),
        arrow(_Page.AI_FAILED, _Page.DEAD_LETTER, "pipeline"),
        *(
            arrow([_Page.AI_COMPLETED, _Page.HUMAN_COMPLETED, _Page.IMPORT_FAILED], end, "output", "page_completed")
            for end in _IMPORTED
        ),
        arrow(_Page.AI_COMPLETED, _Page.IMPORT_FAILED, "output"),
        arrow(_Page.HUMAN_QUEUED, _Page.HUMAN_PROCESSING, "collaboration"),
        arrow(_Page.HUMAN_PROCESSING, _Page.HUMAN_COMPLETED, "collaboration", "page_completed"),
        arrow(_Page.HUMAN_PROCESSING, _Page.AI_QUEUED, "collaboration"),
        arrow(_Page.HUMAN_PROCESSING, _Page.SKIPPED, "collaboration"),
    ],
)
