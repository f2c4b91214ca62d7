"""Executing: tasks are claimed, worked through request by request, and settled."""

from penstock.harvest.executing.executor import Executor
from penstock.harvest.executing.run import Note, Tools
from penstock.harvest.executing.settle import sweep_tasks

__all__ = ["Executor", "Note", "Tools", "sweep_tasks"]
