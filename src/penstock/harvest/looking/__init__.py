"""What goes on in the harvest, for people: plans and their sums, tasks, cursors, schedules. Read only.

Lists go by id and are read part by part: whoever asks with the last id seen gets what comes after it.
"""

from penstock.harvest.looking.store import Part, cursor_events, cursors, plan, schedules, tasks

__all__ = ["Part", "cursor_events", "cursors", "plan", "schedules", "tasks"]
