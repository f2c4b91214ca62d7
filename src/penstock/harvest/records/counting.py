"""Where records go, and what became of a page."""

from dataclasses import dataclass
from typing import Literal

from penstock.harvest.spec import Operation


@dataclass(frozen=True, slots=True)
class Place:
    """Where the records of a page belong and who brought them."""

    provenance_code: str
    endpoint_name: str  # of a two-phase source: the one that was searched
    expr_hash: str
    run_id: int
    batch_no: int
    operation: Operation
    on_equal: Literal["KEEP", "REPLACE"] = "KEEP"
    announces: bool = False
    guesses_time: bool = False  # the source tells none: ours is no sign of a change


@dataclass(frozen=True, slots=True)
class Counts:
    """Every item of a page is one of these; a stored version is counted by exactly one page."""

    inserted: int = 0
    updated: int = 0
    skipped: int = 0
