"""The only place that builds adapters and wires events to handlers. Everything else is handed what it needs.

`load_settings()` reads every group once; `started(settings, role=...)` opens what a role needs and closes it in the
reverse order.
"""

from penstock.bootstrap.parts import Parts
from penstock.bootstrap.settings import GROUPS, Settings, load_settings
from penstock.bootstrap.starting import standing_alone, started

__all__ = ["GROUPS", "Parts", "Settings", "load_settings", "standing_alone", "started"]
