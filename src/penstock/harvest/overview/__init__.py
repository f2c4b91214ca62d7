"""What stands where, for people: plans under way, sources at rest, cursors and what went wrong. It only reads."""

from penstock.harvest.overview.store import (
    Progress,
    Trouble,
    cursor_events,
    cursors_of,
    is_standin_unused,
    last_base_url,
    let_go_of_standin,
    live_plans,
    progress_of,
    schedules_of,
    share_standin,
    status_of,
    troubles_of,
)

__all__ = [
    "Progress",
    "Trouble",
    "cursor_events",
    "cursors_of",
    "is_standin_unused",
    "last_base_url",
    "let_go_of_standin",
    "live_plans",
    "progress_of",
    "schedules_of",
    "share_standin",
    "status_of",
    "troubles_of",
]
