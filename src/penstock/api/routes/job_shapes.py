"""Jobs, pages and records as the API shows them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, Field

from penstock.api import examples
from penstock.api.examples import shown
from penstock.documents.states import JobStatus, PageStatus
from penstock.documents.wording import Progress, hint, trouble
from penstock.kernel.errors import Language
from penstock.kernel.identity import Caller


class JobSummary(BaseModel):
    """A job in a list."""

    model_config = shown(examples.JOB_SUMMARY)

    job_id: UUID
    source_file: str
    file_hash: str = Field(description="SHA-256")
    file_size: int = Field(description="Bytes")
    merchant_id: str
    category: str | None
    industry: str | None
    uploaded_by: str
    uploaded_at: datetime
    status: JobStatus
    user_status: str = Field(description="processing, partial_success, completed, needs_manual or failed")
    error_message: str | None = Field(description="What is wrong, by Accept-Language")
    error_codes: list[str] = Field(description="Every reason for which the file was rejected")
    action_hint: str = Field(description="What to do or expect next, by Accept-Language")
    progress_percent: int
    total_pages: int = Field(description="0: unknown")
    total_skus: int
    created_at: datetime
    updated_at: datetime


class Durations(BaseModel):
    """Seconds; none where something has not begun or ended."""

    evaluation_sec: float | None
    processing_sec: float | None
    total_sec: float | None = Field(description="From the job's creation to the end of its processing")


class JobDetail(JobSummary):
    """All there is to know of a job."""

    model_config = shown(examples.JOB)

    route: str | None = Field(description="AUTO, HYBRID or HUMAN_ALL")
    degrade_reason: str | None
    profile_id: str | None
    frozen_config_version: str | None
    worker_id: str | None
    checkpoint_page: int
    checkpoint_skus: int
    checkpoint_at: datetime | None
    output_base_url: str | None = Field(description="In the object store; on a server's disk, for operators and admins")
    completion_source: str | None
    blank_pages: list[int]
    ai_pages: list[int]
    human_pages: list[int]
    skipped_pages: list[int]
    failed_pages: list[int]
    total_images: int
    processing_trace: dict[str, Any] | None
    token_consumption: dict[str, Any]
    prescan: dict[str, Any] | None
    eval_started_at: datetime | None
    eval_completed_at: datetime | None
    process_started_at: datetime | None
    process_completed_at: datetime | None
    parse_time_ms: int | None
    upload_id: str | None
    orphaned_at: datetime | None
    durations: Durations


class Jobs(BaseModel):
    """A part of the list."""

    model_config = shown(examples.JOBS)

    jobs: list[JobSummary]
    next_cursor: str | None = Field(description="Ask with this for the next part; none: that was all")


class Page(BaseModel):
    """A page: its newest attempt."""

    model_config = shown(examples.PAGE)

    page_number: int
    attempt_no: int
    status: PageStatus
    worker_id: str | None
    claimed_at: datetime | None
    retry_count: int
    processed_by: str | None
    import_confirmation: str
    page_confidence: float | None
    page_type: str | None
    layout_type: str | None
    classification_confidence: float | None
    needs_review: bool
    table_continuation_from: int | None
    validation_errors: list[str] | None
    parser_backend: str
    features: dict[str, Any] | None = Field(description="What the prescan measured")
    product_description: Any | None
    screenshot_path: str | None
    parse_time_ms: int | None
    ocr_time_ms: int | None
    llm_time_ms: int | None
    llm_model_used: str | None
    created_at: datetime
    updated_at: datetime


class Pages(BaseModel):
    """A part of the pages."""

    model_config = shown(examples.PAGES)

    pages: list[Page]
    next_cursor: str | None


class Sku(BaseModel):
    """A record in force."""

    model_config = shown(examples.SKU)

    sku_id: str
    page_number: int
    attempt_no: int
    revision: int
    validity: str
    attributes: dict[str, Any]
    custom_attributes: list[Any]
    source_text: str | None
    source_bbox: list[int] | None
    attribute_source: str
    import_status: str
    import_confirmation: str
    status: str
    created_at: datetime
    updated_at: datetime


class Skus(BaseModel):
    """A part of the records."""

    model_config = shown(examples.SKUS)

    skus: list[Sku]
    next_cursor: str | None


class Result(BaseModel):
    """Everything that came of a job."""

    model_config = shown(examples.RESULT)

    schema_version: str = Field("1", description="Of this document's shape")
    job: JobDetail
    pages: list[Page]
    skus: list[Sku]


class JobProgress(BaseModel):
    """How far the pages have come."""

    model_config = shown(examples.PROGRESS)

    job_id: UUID
    status: JobStatus
    user_status: str
    progress_percent: int
    total_pages: int
    pages_done: int
    pages_by_status: dict[PageStatus, int]
    checkpoint_page: int
    checkpoint_skus: int
    checkpoint_at: datetime | None


class Evaluation(BaseModel):
    """How far the machine can be trusted with the file."""

    model_config = shown(examples.EVALUATION)

    doc_confidence: float
    route: str
    route_reason: str | None
    degrade_reason: str | None
    config_version: str
    dimension_scores: dict[str, Any]
    weights_snapshot: dict[str, Any]
    thresholds_used: dict[str, Any] | None
    prescan: dict[str, Any]
    sampling: dict[str, Any]
    page_evaluations: dict[str, Any] | None
    model_used: str
    prompt_version: str | None
    evaluated_at: datetime


class Change(BaseModel):
    """One change of state, of the job or of one of its pages."""

    id: int
    entity_type: str
    page_number: int | None = Field(description="Of which page; none: of the job")
    from_status: str | None
    to_status: str
    trigger: str | None
    operator: str | None
    timestamp: datetime


class Timeline(BaseModel):
    """The oldest first."""

    model_config = shown(examples.TIMELINE)

    changes: list[Change]
    next_cursor: str | None


def summary(job: Mapping[str, Any], counts: Mapping[str, int], language: Language) -> JobSummary:
    return JobSummary.model_validate({**job, **_told(job, counts, language)})


def detail(job: Mapping[str, Any], counts: Mapping[str, int], language: Language, caller: Caller) -> JobDetail:
    durations = {
        "evaluation_sec": _seconds(job["eval_started_at"], job["eval_completed_at"]),
        "processing_sec": _seconds(job["process_started_at"], job["process_completed_at"]),
        "total_sec": _seconds(job["created_at"], job["process_completed_at"]),
    }
    own = {"output_base_url": _address_for(caller, job["output_base_url"]), "durations": durations}
    return JobDetail.model_validate({**job, **_told(job, counts, language), **own})


def _address_for(caller: Caller, address: str | None) -> str | None:
    """Where the results lie. A path of the server tells merchants about the machine, and they could not use it."""
    is_local = address is not None and address.startswith("file:")
    return None if is_local and not caller.sees_all else address


def _told(job: Mapping[str, Any], counts: Mapping[str, int], language: Language) -> dict[str, Any]:
    progress = Progress(job["total_pages"], counts)
    wrong = trouble(job)
    return {
        "error_message": None if wrong is None else wrong.in_language(language),
        "action_hint": hint(job, progress).in_language(language),
        "progress_percent": progress.percent(job["status"]),
    }


def _seconds(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else (end - start).total_seconds()
