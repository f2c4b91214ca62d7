"""Where each value of a compiled endpoint comes from, as rows for people."""

from dataclasses import dataclass
from typing import Any

from penstock.harvest.compiling.compile import Compiled
from penstock.harvest.compiling.merge import Origin


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    value: Any
    level: str
    origin: str
    overridden: tuple[Origin, ...] = ()  # the strongest first, as they were written
    is_removed: bool = False  # a null took the key away; `level` and `origin` say who


def explain(compiled: Compiled, prefix: str = "") -> list[Row]:
    """One row per key, by key. `prefix` is a whole key or the beginning of one."""
    rows = [
        Row(key, origin.value, origin.level, origin.origin, origin.overrode, is_removed)
        for is_removed, origins in ((False, compiled.origins), (True, compiled.removed))
        for key, origin in origins.items()
        if key.startswith(prefix)
    ]
    return sorted(rows, key=lambda row: row.key)
