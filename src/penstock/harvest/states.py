"""The states of plans, slices, tasks and runs. They are frozen: dashboards and other systems know these names.

A batch has no machine: it is an entry in an account, written once with its outcome.
"""

from enum import StrEnum

from penstock.kernel.statemachine import Machine, arrow


class PlanStatus(StrEnum):
    """Where a plan stands."""

    DRAFT = "DRAFT"  # the snapshot is taken
    SLICING = "SLICING"  # windows are being cut and queued
    READY = "READY"  # every slice has its task
    PARTIAL = "PARTIAL"  # the queue or the quota is full: the rest is sliced later
    FAILED = "FAILED"  # the end: it could not be sliced


class SliceStatus(StrEnum):
    """Where a slice stands."""

    PENDING = "PENDING"  # cut; no task yet
    READY = "READY"  # the end: it has its task
    FAILED = "FAILED"  # the end: it cannot be asked for


class TaskStatus(StrEnum):
    """Where a task stands."""

    QUEUED = "QUEUED"  # waits for an executor
    DISPATCHED = "DISPATCHED"  # an executor holds it and has not begun
    EXECUTING = "EXECUTING"  # requests are being made
    SUCCEEDED = "SUCCEEDED"  # the end: everything of the slice is stored
    PARTIAL = "PARTIAL"  # the end: part of it is stored, the rest went to other slices
    FAILED = "FAILED"  # the end: it cannot be done; the next plan takes up its window
    CANCELLED = "CANCELLED"  # the end: somebody wanted no more of it


class RunStatus(StrEnum):
    """Where one attempt at a task stands."""

    PLANNED = "PLANNED"  # the task is held
    RUNNING = "RUNNING"  # requests are being made
    SUCCEEDED = "SUCCEEDED"  # the end: it finished the slice
    PARTIAL = "PARTIAL"  # the end: it stopped early and what it stored is kept
    FAILED = "FAILED"  # the end: it met something it could not pass, or its executor died
    CANCELLED = "CANCELLED"  # the end: the task was cancelled


_Plan, _Slice, _Task, _Run = PlanStatus, SliceStatus, TaskStatus, RunStatus

PLAN = Machine(
    entity="plan",
    table="ing_plan",
    key="id",
    column="status_code",
    states=PlanStatus,
    terminal=frozenset({_Plan.FAILED}),
    arrows=[
        arrow(None, _Plan.DRAFT, "planner"),
        arrow([_Plan.DRAFT, _Plan.PARTIAL, _Plan.READY], _Plan.SLICING, "planner"),
        arrow(_Plan.SLICING, _Plan.READY, "planner"),
        arrow(_Plan.SLICING, _Plan.PARTIAL, "planner"),
        arrow([_Plan.DRAFT, _Plan.SLICING], _Plan.FAILED, "planner"),
    ],
)

SLICE = Machine(
    entity="slice",
    table="ing_plan_slice",
    key="id",
    column="status_code",
    states=SliceStatus,
    terminal=frozenset({_Slice.READY, _Slice.FAILED}),
    arrows=[
        arrow(None, _Slice.PENDING, "planner"),
        arrow(None, _Slice.READY, "planner, executor"),
        arrow(_Slice.PENDING, _Slice.READY, "planner"),
        arrow(_Slice.PENDING, _Slice.FAILED, "planner"),
    ],
)

_HELD = (_Task.DISPATCHED, _Task.EXECUTING)
TASK = Machine(
    entity="task",
    table="ing_task",
    key="id",
    column="status_code",
    states=TaskStatus,
    terminal=frozenset({_Task.SUCCEEDED, _Task.PARTIAL, _Task.FAILED, _Task.CANCELLED}),
    arrows=[
        arrow(None, _Task.QUEUED, "planner, executor"),
        arrow(_Task.QUEUED, _Task.DISPATCHED, "executor"),
        arrow(_Task.DISPATCHED, _Task.EXECUTING, "executor"),
        arrow(_HELD, _Task.QUEUED, "executor, scheduler"),  # given back, or its executor died
        arrow(_Task.EXECUTING, _Task.SUCCEEDED, "executor"),
        arrow(_Task.EXECUTING, _Task.PARTIAL, "executor"),
        arrow(_HELD, _Task.FAILED, "executor, scheduler"),
        arrow([_Task.QUEUED, *_HELD], _Task.CANCELLED, "api"),
    ],
)

RUN = Machine(
    entity="run",
    table="ing_task_run",
    key="id",
    column="status_code",
    states=RunStatus,
    terminal=frozenset({_Run.SUCCEEDED, _Run.PARTIAL, _Run.FAILED, _Run.CANCELLED}),
    arrows=[
        arrow(None, _Run.PLANNED, "executor"),
        arrow(_Run.PLANNED, _Run.RUNNING, "executor"),
        arrow(_Run.RUNNING, _Run.SUCCEEDED, "executor"),
        arrow([_Run.PLANNED, _Run.RUNNING], _Run.PARTIAL, "executor"),
        arrow([_Run.PLANNED, _Run.RUNNING], _Run.FAILED, "executor, scheduler"),
        arrow([_Run.PLANNED, _Run.RUNNING], _Run.CANCELLED, "executor, api"),
    ],
)
