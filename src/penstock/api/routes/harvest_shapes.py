"""Sources, plans, tasks, cursors and records of the harvest, as the API shows them."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from penstock.api import harvest_examples as examples
from penstock.api.examples import shown
from penstock.harvest.spec import Operation
from penstock.harvest.states import PlanStatus, TaskStatus

_MORE = "Ask with this for the next part; none: that was all"


class _Of(BaseModel):
    source: str
    endpoint: str
    operation: Operation


class SourceSummary(BaseModel):
    """A source in a list."""

    source: str
    name: str
    version: int = Field(description="One more with each change that was applied")
    is_active: bool
    endpoints: list[str]
    default_endpoint: str | None = Field(description="Meant where none is named")
    updated_at: datetime | None
    updated_by: str | None


class Sources(BaseModel):
    """All of them, by code."""

    model_config = shown(examples.SOURCES)

    sources: list[SourceSummary]


class EndpointOfSource(BaseModel):
    """One way to ask the source."""

    name: str
    role: str = Field(description="SEARCH, DETAIL or METRICS")
    is_default: bool
    linked_endpoint: str | None = Field(description="Of a SEARCH: the endpoint that has the details")


class ScheduleState(BaseModel):
    """When an operation is planned by itself: by `cron` or every so many seconds."""

    endpoint: str
    operation: Operation
    cron: str | None
    every_seconds: float | None
    params: dict[str, Any]
    is_active: bool
    next_run_at: datetime
    last_run_at: datetime | None
    last_error: str | None


class Stretch(BaseModel):
    """A stretch of time that is wholly stored, without its end."""

    start: datetime
    end: datetime


class CursorState(_Of):
    """How far an endpoint has been read."""

    cursor_id: int
    key: str = Field(description="What it counts: the source's time of update, an id, a token")
    type: str = Field(description="TIME, ID or TOKEN")
    scope: str = Field(description="GLOBAL, EXPR or CUSTOM: who shares it")
    namespace: str
    direction: str = Field(description="FORWARD or BACKFILL")
    value: str | None = Field(description="The end of the stretch that is whole")
    origin: datetime | None = Field(description="Where that stretch begins")
    observed_max: str | None = Field(description="The newest time of update that was seen")
    stretches: int = Field(description="More than one: there are gaps between them")
    covered: list[Stretch] = Field(description="What is stored, the first hundred stretches")
    plan_id: int | None = Field(description="The plan that moved it last")
    created_at: datetime
    updated_at: datetime


class Cursors(BaseModel):
    """The newest first."""

    model_config = shown(examples.CURSORS)

    cursors: list[CursorState]
    next_cursor: str | None = Field(description=_MORE)


class CursorEvent(_Of):
    """A window was closed: from then on its records are stored."""

    event_id: int
    key: str
    scope: str
    namespace: str
    direction: str
    prev_value: str | None
    new_value: str | None
    covered_from: str | None
    covered_to: str | None
    observed_max: str | None
    plan_id: int | None
    slice_id: int | None
    task_id: int | None
    run_id: int | None
    batch_id: int | None
    created_at: datetime


class CursorEvents(BaseModel):
    """The newest first."""

    model_config = shown(examples.CURSOR_EVENTS)

    events: list[CursorEvent]
    next_cursor: str | None = Field(description=_MORE)


class SourceDetail(BaseModel):
    """A source as it is in force."""

    model_config = shown(examples.SOURCE_DETAIL)

    source: str
    name: str
    description: str
    version: int
    is_active: bool
    default_endpoint: str | None
    updated_at: datetime | None
    updated_by: str | None
    endpoints: list[EndpointOfSource]
    document: dict[str, Any] = Field(description="As `PUT` takes it. It says where secrets are, and holds none")
    schedules: list[ScheduleState]
    cursors: list[CursorState] = Field(description="The newest hundred")


class SourceChange(BaseModel):
    """`before` is null for what is new, `after` for what goes."""

    path: str
    before: Any
    after: Any


class SourceApplied(BaseModel):
    """What changed, or would change."""

    model_config = shown(examples.APPLIED)

    source: str
    version: int = Field(description="In force after this call; 0: there is none yet")
    is_dry_run: bool
    changes: list[SourceChange] = Field(description="None: it was in force already")


class Setter(BaseModel):
    """Who said a value that another one took the place of."""

    level: str
    origin: str
    value: Any


class ExplainedKey(BaseModel):
    """One key of the compiled source."""

    key: str
    value: Any
    level: str = Field(description="platform, source, endpoint, section or run")
    origin: str = Field(description="Where it is written")
    overridden: list[Setter] = Field(description="The strongest first")
    is_removed: bool = Field(description="A null took it away")


class Explanation(_Of):
    """Every key of an endpoint, by name."""

    model_config = shown(examples.EXPLANATION)

    source_version: int
    expr_proto_hash: str = Field(description="Of what changes requests, or how answers are read")
    spec_fingerprint: str = Field(description="Of everything")
    warnings: list[str] = Field(description="What works, but not as well as it could")
    rows: list[ExplainedKey]


class PlanSums(BaseModel):
    """Over all runs of all tasks of the plan."""

    requests: int
    received: int = Field(description="Items that the source sent")
    inserted: int
    updated: int
    skipped: int = Field(description="Known already, in this version or a newer one")
    failed: int = Field(description="Items that went to quarantine, and requests that were refused")
    retries: int
    throttled: int = Field(description="Answers that said: too many requests")


class PlanDetail(_Of):
    """A plan and how far its tasks have come."""

    model_config = shown(examples.PLAN)

    plan_id: int
    strategy: str = Field(description="TIME, PAGE, ID or SCAN: how the work is cut")
    window_from: datetime | None
    window_to: datetime | None
    status: PlanStatus = Field(description="READY: all is queued. PARTIAL: the rest is queued when there is room")
    namespace: str
    priority: int
    expr_proto_hash: str
    spec_fingerprint: str
    source_version: int = Field(description="The version of the source that the plan was compiled from, and keeps")
    remarks: dict[str, Any] = Field(description="Estimates, degradations, warnings")
    slices: int
    tasks_by_status: dict[TaskStatus, int]
    sums: PlanSums
    created_at: datetime
    updated_at: datetime


class Planned(BaseModel):
    """The plan; or the sentence that says why there is nothing to do."""

    model_config = shown(examples.PLANNED)

    plan: PlanDetail | None
    sentence: str | None = Field(description="By Accept-Language")


class SlicePreview(BaseModel):
    """A slice as it would be."""

    slice_no: int
    slice_spec: dict[str, Any]
    requests: int = Field(description="Expected")


class PlanPreview(_Of):
    """What an order would do."""

    model_config = shown(examples.PREVIEW)

    strategy: str
    window_from: datetime | None
    window_to: datetime | None
    namespace: str
    slices: list[SlicePreview]
    is_cut_short: bool = Field(description="There would be more slices than these, or than may wait at once")
    remarks: dict[str, Any]
    sentence: str | None = Field(description="Why there is nothing to do, by Accept-Language")


class TaskState(_Of):
    """One slice's work."""

    task_id: int
    plan_id: int
    slice_id: int
    namespace: str
    status: TaskStatus
    window_from: datetime | None
    window_to: datetime | None
    priority: int = Field(description="Smaller is more urgent")
    attempts: int
    error: dict[str, Any] | None
    executor: str | None = Field(description="Who holds it")
    leased_until: datetime | None
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    created_at: datetime


class Tasks(BaseModel):
    """The newest first."""

    model_config = shown(examples.TASKS)

    tasks: list[TaskState]
    next_cursor: str | None = Field(description=_MORE)


class RecordFacts(BaseModel):
    """A record without its body."""

    id: str
    updated_at: datetime = Field(description="As the source says")
    version: str | None
    is_deleted: bool = Field(description="The source says that it is gone")
    fields: Any = Field(description="As mapped; null without a mapping")
    revision: int = Field(description="How many versions of it were stored")
    expr_hash: str
    run_id: int = Field(description="With batch_no: the request that brought it")
    batch_no: int
    first_seen_at: datetime
    changed_at: datetime
    checked_at: datetime


class Records(BaseModel):
    """In the order of their ids."""

    model_config = shown(examples.RECORDS)

    source: str
    endpoint: str
    records: list[RecordFacts]
    next_after: str | None = Field(description="Ask with this as `after` for the next part; none: that was all")


class Record(RecordFacts):
    """A record, whole."""

    model_config = shown(examples.RECORD)

    source: str
    endpoint: str
    body: str = Field(description="As it came")


class Raised(BaseModel):
    """What came of the list."""

    model_config = shown(examples.RAISED)

    given: int
    raised: int = Field(description="New, or open again; the others were open already")


class QuarantinedItem(_Of):
    """Something that came from a source and is no record."""

    item_id: int
    record_id: str | None = Field(description="Where that much could be read")
    reason_code: str
    reason: str
    sample: str = Field(description="The first kilobyte, without secrets")
    request: dict[str, Any]
    run_id: int
    batch_no: int
    item_no: int
    created_at: datetime
    released_at: datetime | None = Field(description="Since then it is a record")


class Quarantine(BaseModel):
    """The newest first."""

    model_config = shown(examples.QUARANTINE)

    items: list[QuarantinedItem]
    next_cursor: str | None = Field(description=_MORE)
