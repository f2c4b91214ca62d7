"""The rate gate: every call to an upstream asks here first."""

from penstock.kernel.rategate.forgiving import ForgivingGate
from penstock.kernel.rategate.gate import GateSettings, RateGate
from penstock.kernel.rategate.policy import (
    Allow,
    Decision,
    Estimate,
    Outcome,
    RatePolicy,
    Reason,
    Reject,
    Signal,
    Ticket,
    WaitUntil,
)

__all__ = [
    "Allow",
    "Decision",
    "Estimate",
    "ForgivingGate",
    "GateSettings",
    "Outcome",
    "RateGate",
    "RatePolicy",
    "Reason",
    "Reject",
    "Signal",
    "Ticket",
    "WaitUntil",
]
