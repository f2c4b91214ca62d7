"""The machines of the domains to come, as data. Each moves into its domain when that is built.

Tables are made by `create_tables` with only what a machine needs: a key, a status and a merchant.
"""

from enum import StrEnum

from psycopg import AsyncConnection

from penstock.kernel.statemachine import Machine, arrow
from penstock.kernel.workers import WORKER

Job = StrEnum(
    "Job",
    {
        name: name
        for name in [
            "UPLOADED",
            "EVALUATING",
            "EVAL_FAILED",
            "EVALUATED",
            "PROCESSING",
            "PARTIAL_FAILED",
            "PARTIAL_IMPORTED",
            "DEGRADED_HUMAN",
            "FULL_IMPORTED",
            "REJECTED",
            "ORPHANED",
            "CANCELLED",
        ]
    },
)
Page = StrEnum(
    "Page",
    {
        name: name
        for name in [
            "PENDING",
            "BLANK",
            "AI_QUEUED",
            "AI_PROCESSING",
            "AI_COMPLETED",
            "AI_FAILED",
            "HUMAN_QUEUED",
            "HUMAN_PROCESSING",
            "HUMAN_COMPLETED",
            "IMPORTED_CONFIRMED",
            "IMPORTED_ASSUMED",
            "IMPORT_FAILED",
            "SKIPPED",
            "DEAD_LETTER",
        ]
    },
)
Sku = StrEnum(
    "Sku",
    {
        name: name
        for name in ["EXTRACTED", "VALIDATED", "CONFIRMED", "BOUND", "EXPORTED", "SUPERSEDED", "PARTIAL", "INVALID"]
    },
)
Task = StrEnum(
    "Task", {name: name for name in ["CREATED", "ASSIGNED", "PROCESSING", "COMPLETED", "EXPIRED", "ESCALATED"]}
)
Image = StrEnum(
    "Image",
    {name: name for name in ["EXTRACTED", "QUALITY_ASSESSED", "ROLE_CLASSIFIED", "DELIVERABLE", "NOT_DELIVERABLE"]},
)

_JOB_OPEN = [s for s in Job if s not in (Job.FULL_IMPORTED, Job.REJECTED, Job.CANCELLED)]
JOB = Machine(
    entity="job",
    table="machine_job",
    key="id",
    merchant_column="merchant_id",
    states=Job,
    terminal=frozenset({Job.FULL_IMPORTED, Job.REJECTED, Job.CANCELLED}),
    arrows=[
        arrow(None, Job.UPLOADED, "gateway"),
        arrow(None, Job.REJECTED, "gateway", "job_failed"),
        arrow(None, Job.DEGRADED_HUMAN, "gateway", "human_needed"),
        arrow(Job.UPLOADED, Job.EVALUATING, "gateway"),
        arrow(Job.UPLOADED, Job.REJECTED, "gateway", "job_failed"),
        arrow(Job.EVALUATING, Job.EVALUATED, "evaluator"),
        arrow(Job.EVALUATING, Job.EVAL_FAILED, "evaluator", "job_failed"),
        arrow([Job.EVALUATING, Job.EVAL_FAILED], Job.DEGRADED_HUMAN, "evaluator", "human_needed"),
        arrow(Job.EVALUATED, Job.PROCESSING, "pipeline"),
        arrow(Job.EVALUATED, Job.DEGRADED_HUMAN, "pipeline", "human_needed"),
        arrow(Job.PROCESSING, Job.FULL_IMPORTED, "pipeline, output", "job_completed"),
        arrow(Job.PROCESSING, Job.PARTIAL_IMPORTED, "pipeline, output", "job_completed"),
        arrow(Job.PROCESSING, Job.PARTIAL_FAILED, "pipeline"),
        arrow([Job.PROCESSING, Job.EVALUATING], Job.ORPHANED, "gateway", "job_failed"),
        arrow(Job.PARTIAL_FAILED, Job.PARTIAL_IMPORTED, "collaboration"),
        arrow([Job.PARTIAL_IMPORTED, Job.DEGRADED_HUMAN], Job.FULL_IMPORTED, "output", "job_completed"),
        arrow(Job.ORPHANED, Job.PROCESSING, "gateway"),
        arrow(_JOB_OPEN, Job.CANCELLED, "api", "job_failed"),
    ],
)

_IMPORTED = (Page.IMPORTED_CONFIRMED, Page.IMPORTED_ASSUMED)
PAGE = Machine(
    entity="page",
    table="machine_page",
    key="id",
    merchant_column="merchant_id",
    states=Page,
    terminal=frozenset({Page.BLANK, Page.SKIPPED, Page.DEAD_LETTER, *_IMPORTED}),
    arrows=[
        arrow(None, Page.PENDING, "pipeline"),
        arrow(Page.PENDING, Page.BLANK, "pipeline", "pages_batch_update"),
        arrow(Page.PENDING, Page.AI_QUEUED, "pipeline"),
        arrow(Page.PENDING, Page.HUMAN_QUEUED, "pipeline"),
        arrow(Page.AI_QUEUED, Page.AI_PROCESSING, "pipeline"),
        arrow(Page.AI_PROCESSING, Page.AI_COMPLETED, "pipeline", "page_completed"),
        arrow(Page.AI_PROCESSING, Page.AI_FAILED, "pipeline"),
        arrow(Page.AI_FAILED, Page.AI_QUEUED, "pipeline"),
        arrow(Page.AI_FAILED, Page.HUMAN_QUEUED, "pipeline", "human_needed"),
        arrow(Page.AI_FAILED, Page.DEAD_LETTER, "pipeline"),
        *(
            arrow([Page.AI_COMPLETED, Page.HUMAN_COMPLETED, Page.IMPORT_FAILED], end, "output", "page_completed")
            for end in _IMPORTED
        ),
        arrow(Page.AI_COMPLETED, Page.IMPORT_FAILED, "output"),
        arrow(Page.HUMAN_QUEUED, Page.HUMAN_PROCESSING, "collaboration"),
        arrow(Page.HUMAN_PROCESSING, Page.HUMAN_COMPLETED, "collaboration", "page_completed"),
        arrow(Page.HUMAN_PROCESSING, Page.AI_QUEUED, "collaboration"),
        arrow(Page.HUMAN_PROCESSING, Page.SKIPPED, "collaboration"),
    ],
)

_SKU_END = frozenset({Sku.INVALID, Sku.EXPORTED, Sku.SUPERSEDED})
SKU = Machine(
    entity="sku",
    table="machine_sku",
    key="id",
    merchant_column="merchant_id",
    states=Sku,
    terminal=_SKU_END,
    arrows=[
        arrow(None, Sku.EXTRACTED, "pipeline"),
        arrow(Sku.EXTRACTED, Sku.VALIDATED, "pipeline"),
        arrow(Sku.EXTRACTED, Sku.PARTIAL, "pipeline"),
        arrow(Sku.EXTRACTED, Sku.INVALID, "pipeline"),
        arrow(Sku.PARTIAL, Sku.CONFIRMED, "collaboration"),
        arrow(Sku.PARTIAL, Sku.INVALID, "collaboration"),
        arrow([Sku.VALIDATED, Sku.CONFIRMED], Sku.BOUND, "pipeline"),
        arrow(Sku.BOUND, Sku.EXPORTED, "pipeline, output"),
        arrow([s for s in Sku if s not in _SKU_END], Sku.SUPERSEDED, "pipeline"),
    ],
)

TASK = Machine(
    entity="task",
    table="machine_task",
    key="id",
    merchant_column="merchant_id",
    states=Task,
    terminal=frozenset({Task.COMPLETED, Task.ESCALATED}),
    arrows=[
        arrow(None, Task.CREATED, "pipeline", "human_needed"),
        arrow(Task.CREATED, Task.ASSIGNED, "collaboration", "task_assigned"),
        arrow([Task.CREATED, Task.ASSIGNED], Task.PROCESSING, "collaboration"),
        arrow(Task.PROCESSING, Task.COMPLETED, "collaboration", "page_completed"),
        arrow(Task.PROCESSING, Task.EXPIRED, "collaboration"),
        arrow([Task.PROCESSING, Task.EXPIRED], Task.CREATED, "collaboration"),
        arrow([Task.EXPIRED, Task.CREATED], Task.ESCALATED, "collaboration", "sla_escalated"),
    ],
)

IMAGE = Machine(
    entity="image",
    table="machine_image",
    key="id",
    merchant_column="merchant_id",
    states=Image,
    terminal=frozenset({Image.DELIVERABLE, Image.NOT_DELIVERABLE}),
    arrows=[
        arrow(None, Image.EXTRACTED, "pipeline"),
        arrow(Image.EXTRACTED, Image.QUALITY_ASSESSED, "pipeline"),
        arrow(Image.QUALITY_ASSESSED, Image.ROLE_CLASSIFIED, "pipeline"),
        arrow(Image.ROLE_CLASSIFIED, Image.DELIVERABLE, "pipeline"),
        arrow(Image.ROLE_CLASSIFIED, Image.NOT_DELIVERABLE, "pipeline"),
    ],
)

WRITTEN = (JOB, PAGE, SKU, TASK, IMAGE)
ALL = (*WRITTEN, WORKER)


async def create_tables(tx: AsyncConnection) -> None:
    for machine in WRITTEN:
        states = ", ".join(f"'{state}'" for state in machine.states)
        await tx.execute(
            f"create table if not exists {machine.table} (id uuid primary key default gen_random_uuid(),"
            f" merchant_id text not null default 'm1', note text, status text not null check (status in ({states})))"
        )
