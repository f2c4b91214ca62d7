"""The roles that work without being asked: ARQ worker, executor of harvests, scheduler with its relay."""

from penstock.worker.executing import run_executor
from penstock.worker.scheduling import run_scheduler
from penstock.worker.working import run_worker

__all__ = ["run_executor", "run_scheduler", "run_worker"]
