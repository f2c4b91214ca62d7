"""All machines, on tables of their own. Those of the domains to come stand here until their domain is built.

Tables are made by `create_tables` with only what a machine needs: a key, a status and a merchant.
"""

from dataclasses import replace
from enum import StrEnum

from psycopg import AsyncConnection

from penstock.documents import states as documents
from penstock.kernel.statemachine import Machine, arrow
from penstock.kernel.workers import WORKER

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

JOB = replace(documents.JOB, table="machine_job", key="id")
PAGE = replace(documents.PAGE, table="machine_page", key="id", merchant_column="merchant_id")

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
