"""The roles that work without being asked: the ARQ worker, and the scheduler with its relay."""

from penstock.worker.scheduling import run_scheduler
from penstock.worker.working import run_worker

__all__ = ["run_scheduler", "run_worker"]
