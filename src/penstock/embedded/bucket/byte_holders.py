"""The sessions that hold bytes on disk: two of one object at the most.

A signed address can be used many times, but the quota counts the announced size of an object once. A session becomes
a holder before its first byte is written, and is one until its bytes are removed or are an object.
"""

import threading

from penstock.embedded.bucket.open_sessions import Session

_MOST_OF_A_NAME = 2


class ByteHolders:
    """Counts them for each object. Any thread may call. Which one gives way is said here; the caller ends it."""

    def __init__(self) -> None:
        self._of_name: dict[str, dict[str, Session]] = {}
        self._lock = threading.Lock()

    def add(self, session: Session) -> Session | None:
        """Counts the session as a holder; or returns the one that must end first, and changes nothing."""
        with self._lock:
            same = self._of_name.setdefault(session.record.wish.name, {})
            if session.record.key not in same and len(same) >= _MOST_OF_A_NAME:
                return min(same.values(), key=_last_sent)
            same[session.record.key] = session
            session.is_empty = False
            return None

    def discard(self, session: Session) -> None:
        name = session.record.wish.name
        with self._lock:
            same = self._of_name.get(name, {})
            if same.pop(session.record.key, None) is not None and not same:
                del self._of_name[name]

    def of(self, name: str) -> list[Session]:
        with self._lock:
            return list(self._of_name.get(name, {}).values())


def _last_sent(session: Session) -> int:
    return session.last_sent
