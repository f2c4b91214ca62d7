"""Where tests check and apply rules: in their own process, with the same functions and budget as in the sandbox."""

from penstock.extraction.rule_sandbox import RuleSandbox
from penstock.extraction.rules import Terms
from penstock.kernel.confined_calls import DirectCalls

HERE = RuleSandbox(DirectCalls())
TERMS = Terms(HERE)
