"""Planning: a trigger becomes a plan, the plan slices, each slice one task in the queue; nothing is queued twice."""

from penstock.harvest.planning.estimates import CountingEstimator, HistoryEstimator, NoEstimator
from penstock.harvest.planning.plan import Planner
from penstock.harvest.planning.schedules import Schedules, check_cron
from penstock.harvest.planning.signals import Reason, raise_signals
from penstock.harvest.planning.trigger import (
    Allowance,
    Candidates,
    Estimator,
    Outcome,
    Preview,
    PreviewSlice,
    Trigger,
)
from penstock.harvest.schedule_params import CandidateKind

__all__ = [
    "Allowance",
    "CandidateKind",
    "Candidates",
    "CountingEstimator",
    "Estimator",
    "HistoryEstimator",
    "NoEstimator",
    "Outcome",
    "Planner",
    "Preview",
    "PreviewSlice",
    "Reason",
    "Schedules",
    "Trigger",
    "check_cron",
    "raise_signals",
]
