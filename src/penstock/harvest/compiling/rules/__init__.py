"""The nine rules that an endpoint's settings must keep together; one file each, in the order of their numbers."""

from penstock.harvest.compiling.problems import Rule
from penstock.harvest.compiling.rules.access import ACCESS
from penstock.harvest.compiling.rules.answers import ANSWERS
from penstock.harvest.compiling.rules.codes import CODES
from penstock.harvest.compiling.rules.limits import LIMITS
from penstock.harvest.compiling.rules.operations import OPERATIONS
from penstock.harvest.compiling.rules.paging import PAGING
from penstock.harvest.compiling.rules.phases import PHASES
from penstock.harvest.compiling.rules.safety import SAFETY
from penstock.harvest.compiling.rules.windows import WINDOWS

__all__ = ["CODES", "RULES"]

RULES: tuple[Rule, ...] = (ACCESS, PAGING, WINDOWS, PHASES, ANSWERS, LIMITS, CODES, OPERATIONS, SAFETY)
