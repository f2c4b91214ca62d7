"""Strangers' bytes are read here: in separate, killable, locked-in processes that are kept warm.

async with Sandbox(settings, preload=("penstock.pdf.inspect",)) as sandbox:
    outcome = await sandbox.call("penstock.pdf.inspect:inspect", 50, files=[path], returns=Findings)
    if not outcome.ok: ...  # a crash, hang or bomb is an Outcome, never an exception
"""

from penstock.kernel.sandbox.outcome import Ending, Limits, Outcome
from penstock.kernel.sandbox.pool import Sandbox
from penstock.kernel.sandbox.process import Strength
from penstock.kernel.sandbox.settings import SandboxSettings

__all__ = ["Ending", "Limits", "Outcome", "Sandbox", "SandboxSettings", "Strength"]
