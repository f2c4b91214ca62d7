"""The open sessions of a bucket: how many one uploader may have, and which make way when there are too many."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

from penstock.embedded.bucket.body import Body
from penstock.embedded.bucket.datafile import DataFile
from penstock.embedded.bucket.names import owner_of
from penstock.embedded.bucket.records import SessionRecord
from penstock.embedded.bucket.refusals import too_many

_EMPTY_LASTS = timedelta(minutes=5)
_SILENT_LASTS = timedelta(days=1)


class Session:
    """One session: what is known of it, and the request that writes to it."""

    def __init__(self, record: SessionRecord, heard: datetime) -> None:
        self.record = record
        self.owner = owner_of(record.wish.name)
        self.heard = heard  # when its sender last sent bytes, or we started
        self.is_empty = True  # has nothing come that was to be kept?
        self.file: DataFile | None = None  # between requests it is closed, but its hashes are kept
        self.turn = asyncio.Lock()
        self.body: Body | None = None
        self.is_named = False  # is the data file's name durable?
        self.last_sent = 0  # rank among all senders, by their last bytes; 0: none yet

    @property
    def is_open(self) -> bool:
        return self.record.object is None and self.record.refused is None

    @property
    def worth(self) -> int:
        """Rank among the sessions of one object: when there are too many, refused ones go first, open ones last."""
        return 2 if self.is_open else 1 if self.record.object else 0

    def interrupt(self) -> None:
        if self.body is not None:
            self.body.hang_up()


class OpenSessions:
    """Counts them for each uploader. One that was begun and never used is kept only while there is room."""

    def __init__(self, most: int, share: float) -> None:
        self._most = most
        self._most_of_one = max(1, int(most * share))
        self._count = 0
        self._of_owner: dict[str, dict[str, Session]] = {}  # oldest first

    def keys(self) -> set[str]:
        return {key for sessions in self._of_owner.values() for key in sessions}

    def add(self, session: Session) -> None:
        self._of_owner.setdefault(session.owner, {})[session.record.key] = session
        self._count += 1

    def discard(self, session: Session) -> None:
        same = self._of_owner.get(session.owner, {})
        if same.pop(session.record.key, None) is None:
            return
        self._count -= 1
        if not same:
            del self._of_owner[session.owner]

    def made_way_for(self, owner: str, now: datetime) -> Session | None:
        """The session that makes way for a new one of this uploader; None while there is room. Refusal if none can."""
        same = self._of_owner.get(owner, {})
        if len(same) >= self._most_of_one:
            leaving = _useless(same, now)
            if leaving is None:
                raise too_many(f"This uploader has {len(same)} sessions open, which is its share: end some of them.")
            return leaving
        if self._count < self._most:
            return None
        for sessions in self._with_as_many_as(len(same)):
            if leaving := _useless(sessions, now):
                return leaving
        raise too_many(f"All {self._count} sessions of this bucket are in use: try again in a few minutes.")

    def _with_as_many_as(self, count: int) -> Iterator[dict[str, Session]]:
        """The sessions of each uploader that has no fewer than `count`; whoever has most comes first."""
        candidates = [sessions for sessions in self._of_owner.values() if len(sessions) >= count]
        yield from sorted(candidates, key=len, reverse=True)


def _useless(sessions: dict[str, Session], now: datetime) -> Session | None:
    """The oldest that is empty and some minutes old, or else the oldest whose sender has been silent for a day."""
    silent = None
    for session in sessions.values():
        if now - session.record.started <= _EMPTY_LASTS:
            break  # all others are younger
        if session.turn.locked():
            continue
        if session.is_empty:
            return session
        if silent is None and now - session.heard > _SILENT_LASTS:
            silent = session
    return silent
