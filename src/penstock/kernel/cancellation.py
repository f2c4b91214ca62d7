"""Cancellations that get through.

`asyncio.wait_for` of Python 3.11 forgets a cancellation that comes in the moment in which what it waits for is done.
redis-py sends under it, psycopg's pool waits under it. A loop that is cancelled then goes on, and who waits for its end
waits in vain. So after such a call we look whether the task was asked to end meanwhile.
"""

import asyncio


def cancellations() -> int:
    """How often the running task has been asked to end."""
    task = asyncio.current_task()
    return task.cancelling() if task else 0


def raise_if_cancelled(since: int) -> None:
    """Raise the cancellation that came `since` and was forgotten."""
    if cancellations() > since:
        raise asyncio.CancelledError
