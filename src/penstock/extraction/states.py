"""The states of an ETL task. PostgreSQL holds `pending` and the ends; Redis what happens between.

Invariant: a status is written to PostgreSQL by the state machine, in the transaction that settles the worker's lease,
so a worker that is late can overwrite neither a cancellation nor a newer attempt.
"""

from enum import StrEnum

from penstock.kernel.statemachine import Machine, arrow


class TaskStatus(StrEnum):
    """What PostgreSQL says of a task."""

    PENDING = "pending"  # submitted; whether a worker is at it is seen by the lease
    COMPLETED = "completed"  # the result is there and fits its schema
    FAILED = "failed"  # a stage was tried as often as allowed, or can never work
    CANCELLED = "cancelled"  # the user took it back before it began


class RunStatus(StrEnum):
    """What Redis says of a task: the same ends, and the stages between. In this order, never back."""

    PENDING = "pending"  # waits for a worker
    MINERU_PARSING = "mineru_parsing"  # being read, by whichever provider
    LLM_PROCESSING = "llm_processing"  # read; being turned into JSON
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Stage(StrEnum):
    """The two steps of a task."""

    OCR = "ocr"  # the document becomes markdown and pages
    POSTPROCESS = "postprocess"  # those become JSON by the rule


_Task = TaskStatus
TASK = Machine(
    entity="etl_task",
    table="etl_task",
    key="task_id",
    merchant_column="merchant_id",
    states=TaskStatus,
    arrows=[
        arrow(None, _Task.PENDING, "api"),
        arrow(_Task.PENDING, _Task.COMPLETED, "worker", "etl_completed"),
        arrow(_Task.PENDING, _Task.FAILED, "worker", "etl_failed"),
        arrow(_Task.PENDING, _Task.CANCELLED, "api", "etl_cancelled"),
        arrow([_Task.COMPLETED, _Task.FAILED, _Task.CANCELLED], _Task.PENDING, "api"),
    ],
)
