"""Tasks of ETL as the API shows them."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from penstock.api import etl_examples as examples
from penstock.api.examples import shown
from penstock.extraction.queries import TaskView
from penstock.extraction.states import RunStatus, Stage


class Submitted(BaseModel):
    """What became of a submission."""

    model_config = shown(examples.SUBMITTED)

    task_id: int
    status: RunStatus


class Task(BaseModel):
    """One task. What has not happened yet is null."""

    model_config = shown(examples.TASK)

    task_id: int
    status: RunStatus
    phase: Stage = Field(description="The stage that it is in, or ended in")
    progress: int = Field(ge=0, le=100)
    merchant_id: str | None
    filename: str | None
    rule_id: int | None
    rule_version: int | None
    attempts: dict[str, int] = Field(description="Failed attempts of each stage")
    pages: dict[str, int] | None = Field(description="Of the stage in hand: done and total")
    job_id: str | None = Field(description="The queued job, while it runs")
    next_attempt_at: datetime | None = Field(description="After a failed attempt: when it is tried again")
    result: dict[str, Any] | None
    error: dict[str, Any] | None = Field(
        description="stage, code, message, reason, details; of a running task the last"
    )
    metadata: dict[str, Any] = Field(description="Pointers to artefacts, pages, times, versions")
    created_at: datetime | None
    updated_at: datetime | None = Field(description="The last that was heard of it")
    started_at: datetime | None
    finished_at: datetime | None


class Tasks(BaseModel):
    """Newest first."""

    model_config = shown(examples.TASKS)

    tasks: list[Task]
    next_before: int | None = Field(description="Ask with `before` for the next part; none: that was all")


def task_of(view: TaskView) -> Task:
    state, row = view.state, view.row or {}
    facts = state.facts
    is_over = state.is_over
    return Task(
        task_id=state.task_id,
        status=state.status,
        phase=state.phase,
        progress=state.progress,
        merchant_id=row.get("merchant_id") or facts.get("merchant_id"),
        filename=row.get("filename") or facts.get("filename"),
        rule_id=row.get("rule_id") or facts.get("rule_id"),
        rule_version=row.get("rule_version") or facts.get("rule_version"),
        attempts=facts.get("attempts") or {},
        pages=None if is_over else facts.get("pages"),
        job_id=None if is_over else facts.get("job_id"),
        next_attempt_at=None if is_over else facts.get("next_attempt_at"),
        result=row.get("result"),
        error=row.get("error") or (None if is_over else facts.get("error")),
        metadata=row.get("metadata") or {"artifacts": facts.get("artifacts") or {}},
        created_at=row.get("created_at") or facts.get("created_at"),
        updated_at=row.get("updated_at") if is_over else state.updated_at or row.get("updated_at"),
        started_at=row.get("started_at") or facts.get("started_at"),
        finished_at=row.get("finished_at"),
    )
