"""What stands where, for people: plans under way, sources at rest, cursors and what went wrong. It only reads."""

from penstock.harvest.overview.store import (
    Progress,
    Trouble,
    cursor_events,
    cursors_of,
    last_base_url,
    live_plans,
    moment_now,
    progress_of,
    schedules_of,
    status_of,
    troubles_of,
)

__all__ = [
    "Progress",
    "Trouble",
    "cursor_events",
    "cursors_of",
    "last_base_url",
    "live_plans",
    "moment_now",
    "progress_of",
    "schedules_of",
    "status_of",
    "troubles_of",
]
