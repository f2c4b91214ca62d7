"""How many tokens a text has, before anybody has counted, and what tokens cost.

Invariant: guesses are high and costs are rounded up, so that what is set aside suffices.
"""

import re
from dataclasses import dataclass

MILLION = 1_000_000
PER_MESSAGE = 8
_LETTERS = re.compile(r"[A-Za-z ]+")


@dataclass(frozen=True, slots=True)
class Price:
    """Micro-dollars for a million tokens."""

    prompt: int = 0
    output: int = 0

    def cost(self, prompt_tokens: int, output_tokens: int) -> int:
        """Whole micro-dollars, rounded up."""
        return -(-(prompt_tokens * self.prompt + output_tokens * self.output) // MILLION)


def estimate_tokens(text: str) -> int:
    """Three letters of plain English to a token; every digit, sign and Chinese character is one."""
    letters = sum(len(run) for run in _LETTERS.findall(text))
    return -(-letters // 3) + len(text) - letters
