"""Resumable sessions: bytes come in pieces, over connections that break, from senders that have lost their place.

Only whole quanta are kept until the last piece comes, so what is on disk is always a place to go on from. Bytes are
synced before a sender is told that we have them; a restart finds them by the length of the data file and hashes
them anew. One request at a time writes to a session, and the newest wins: a phone that lost its connection comes
back long before we notice that the old one is dead.
"""

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial

import msgspec
import structlog

from penstock.embedded.bucket import metrics
from penstock.embedded.bucket.body import Body, HungUpOn
from penstock.embedded.bucket.byte_holders import ByteHolders
from penstock.embedded.bucket.datafile import DataFile
from penstock.embedded.bucket.faults import Faults
from penstock.embedded.bucket.inflow import Inflow
from penstock.embedded.bucket.ledger import Ledger
from penstock.embedded.bucket.names import owner_of
from penstock.embedded.bucket.open_sessions import OpenSessions, Session
from penstock.embedded.bucket.ranges import QUANTUM, Arriving
from penstock.embedded.bucket.records import Kind, SessionRecord, StoredObject, Wish, session_key
from penstock.embedded.bucket.refusals import (
    PRECONDITION_FAILED,
    TOO_LARGE,
    Refusal,
    malformed,
    no_such_session,
    session_over,
    too_large,
    too_many,
    too_small,
    try_again,
)
from penstock.embedded.bucket.settings import BucketSettings
from penstock.embedded.bucket.shelf import Shelf
from penstock.embedded.bucket.threads import current_work, in_thread
from penstock.kernel import failpoints
from penstock.kernel.clock import Clock

log = structlog.get_logger(__name__)
_MOST_OF_A_NAME = 16  # a signed address can be used many times: whoever has one must not fill the disk with sessions


class Sessions:
    """All sessions of one bucket."""

    def __init__(self, shelf: Shelf, ledger: Ledger, settings: BucketSettings, clock: Clock, faults: Faults) -> None:
        self._shelf = shelf
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._faults = faults
        self._sessions: dict[str, Session] = {}
        self._open = OpenSessions(settings.most_sessions, settings.session_share)
        self._of_name: dict[str, dict[str, Session]] = {}  # oldest first
        self._holders = ByteHolders()
        self._sendings = itertools.count(1)

    def load(self, ended: dict[str, StoredObject]) -> set[str]:
        """From disk. A session whose object is there has ended, whether it could still write that down or not."""
        for key, found in self._shelf.sessions():
            record = found
            if record.object is None and key in ended:
                record = msgspec.structs.replace(record, object=ended[key])
            if record.object:
                self._ledger.saw(record.object.generation)
            self._sessions[key] = Session(record, self._clock.now())
        for key, session in sorted(self._sessions.items(), key=lambda each: each[1].record.started):
            self._note(key, session)
        self._load_holders()
        return self._open.keys()

    def _load_holders(self) -> None:
        """Counts the sessions that hold bytes; of more than two of an object, those not written to longest end."""
        still_open = self._open.keys()
        written = {key: when for key in still_open if (when := self._shelf.written_at(key))}
        for key in sorted(written, key=lambda key: written[key]):
            session = self._sessions[key]
            session.last_sent = next(self._sendings)
            while silent := self._holders.add(session):
                self._end(silent, session_over())
            if refusal := self._ledger.refusal_of(session.record.wish):
                self._end(session, refusal)

    async def begin(self, kind: Kind, wish: Wish, total: int | None = None) -> str:
        """The secret that names the new session."""
        if total is not None and total > self._settings.largest_object:
            raise too_large(self._settings.largest_object)
        now = self._clock.now()
        if leaving := self._open.made_way_for(owner_of(wish.name), now):
            self._drop(leaving.record.key)
        upload_id = secrets.token_urlsafe(48)
        record = SessionRecord(key=session_key(upload_id), kind=kind, wish=wish, started=now, total=total)
        self._note(record.key, Session(record, now))  # before anything is waited for: others who begin must count it
        try:
            if leaving:
                await self.cancel(leaving)
            await self._make_room(wish.name)
            await in_thread(self._shelf.write_session, record)
        except BaseException:
            self._drop(record.key)
            raise
        if record.key not in self._sessions:  # it was one too many itself, meanwhile
            await in_thread(self._shelf.remove_session, record.key)
            raise too_many("Too many sessions of this object were begun at once.")
        return upload_id

    def find(self, upload_id: str) -> Session:
        session = self._sessions.get(session_key(upload_id))
        if session is None:
            raise no_such_session()
        if session.is_open and (self._faults.expire_sessions or self._is_over(session, self._clock.now())):
            raise session_over()
        return session

    async def put(self, session: Session, arriving: Arriving, body: Body) -> int | StoredObject:
        """How many bytes we have now, or the finished object."""
        async with self._turn(session, body):
            if session.record.refused:
                raise Refusal(*session.record.refused)
            if session.record.object:
                return session.record.object
            got = await self._put(session, arriving, body)
        if not isinstance(got, int):
            await self._end_outdated(got)
        return got

    async def _put(self, session: Session, arriving: Arriving, body: Body) -> int | StoredObject:
        async with self._opened(session) as file:
            self._check_total(session, file, arriving)
            if not arriving.only_asks:
                whole = await self._taken_in(session, file, arriving, body)
            else:
                whole = arriving.total is not None and arriving.total == file.size
            if whole:
                return await in_thread(self._finish, session, file)
            await in_thread(self._sync, session, file)
            failpoints.reach("bucket.chunk_synced")
            metrics.RESUMED.inc()
            return file.size

    async def cancel(self, session: Session) -> None:
        """Forgets it with its bytes. One that has ended well stays: its sender may ask again how it ended."""
        async with self._turn(session, None):
            if session.record.object:
                return
            try:
                await in_thread(self._erase, session)
            finally:
                self._drop(session.record.key)

    def interrupt(self) -> None:
        """We stop: what has come is kept, and senders are told to come again."""
        for session in self._sessions.values():
            session.interrupt()

    async def expire(self) -> int:
        """Those too old go, with their bytes; for as long again they are remembered as gone."""
        now, gone = self._clock.now(), 0
        for key, session in list(self._sessions.items()):
            if session.turn.locked() or not self._is_over(session, now):
                continue
            if session.is_open:
                await self._end_in_turn(session, session_over())
                gone += 1
            elif now - session.record.started > 2 * self._settings.session_days:
                await in_thread(self._shelf.remove_session, key)
                self._drop(key)
        return gone

    async def _end_in_turn(self, session: Session, why: Refusal) -> None:
        async with self._turn(session, None):
            if session.is_open:
                await in_thread(self._end, session, why)

    async def _end_outdated(self, stored: StoredObject) -> None:
        """Ends the sessions that hold bytes for the object and may not replace it: its quota has been given back."""
        for session in self._holders.of(stored.name):
            if refusal := self._ledger.refusal_of(session.record.wish):
                await self._end_in_turn(session, refusal)

    async def _make_room(self, name: str) -> None:
        """Forgets sessions when one object has too many; a client that still sends to one begins anew."""
        while len(same := self._of_name.get(name, {})) > _MOST_OF_A_NAME:
            session = min(same.values(), key=lambda each: each.worth)
            if session.is_open:
                await self.cancel(session)
            else:
                self._drop(session.record.key)
                await in_thread(self._shelf.remove_session, session.record.key)

    async def _hold_bytes(self, session: Session) -> None:
        """Waits until the session may hold bytes: another that was silent longest ends first, if there are two.

        A session waits here only while it holds none, and only for one that holds some, which never waits here: so no
        two wait for each other, though each has its own turn.
        """
        if refusal := self._ledger.refusal_of(session.record.wish):
            raise refusal
        while silent := self._holders.add(session):
            await self._end_in_turn(silent, session_over())
            self._holders.discard(silent)

    def _note(self, key: str, session: Session) -> None:
        self._sessions[key] = session
        self._of_name.setdefault(session.record.wish.name, {})[key] = session
        if session.is_open:
            self._open.add(session)

    def _drop(self, key: str) -> None:
        session = self._sessions.pop(key, None)
        if session is None:
            return
        self._open.discard(session)
        same = self._of_name[session.record.wish.name]
        del same[key]
        if not same:
            del self._of_name[session.record.wish.name]

    def _is_over(self, session: Session, now: datetime) -> bool:
        return now - session.record.started > self._settings.session_days

    @asynccontextmanager
    async def _turn(self, session: Session, body: Body | None) -> AsyncIterator[None]:
        while session.turn.locked():
            current_work().give_turn()  # whoever has the session may wait for it
            session.interrupt()
            if await _got_within(session.turn, 0.05):
                break
        else:
            await session.turn.acquire()
        session.body = body
        try:
            await current_work().take_turn()
            yield
        finally:
            session.body = None
            session.turn.release()

    @asynccontextmanager
    async def _opened(self, session: Session) -> AsyncIterator[DataFile]:
        file = session.file
        path = self._shelf.data(session.record.key)
        if file is None:
            keep_free = self._settings.keep_free_bytes
            file = session.file = await in_thread(partial(DataFile, path, keep_free=keep_free, whole=QUANTUM))
        else:
            await in_thread(file.reopen, path)
        try:
            yield file
        except OSError:
            session.file = None  # how much came to be written is found out by looking
            raise
        finally:
            file.close()

    def _check_total(self, session: Session, file: DataFile, arriving: Arriving) -> None:
        total, known = arriving.total, session.record.total
        if total is None or total == known:
            return
        if known is not None:
            raise malformed("The total size was said to be another before.")
        if total > (most := self._most(session)):
            raise too_large(most)
        if total < file.size:
            raise malformed("More bytes have come than the total size.")
        session.record = msgspec.structs.replace(session.record, total=total)

    async def _taken_in(self, session: Session, file: DataFile, arriving: Arriving, body: Body) -> bool:
        """True when the object is whole. A sender that brings too much, or comes too late, has lost its session."""
        try:
            return await self._take_in(session, file, arriving, body)
        except Refusal as refusal:
            if refusal.code in (TOO_LARGE, PRECONDITION_FAILED):
                await in_thread(self._end, session, refusal)
            raise

    def _most(self, session: Session) -> int:
        """The number of bytes that a session may bring: a body ends at the announced size."""
        said = (self._settings.largest_object, session.record.wish.most, session.record.total)
        return min(int(each) for each in said if each is not None)

    async def _take_in(self, session: Session, file: DataFile, arriving: Arriving, body: Body) -> bool:
        """True when the object is whole."""
        if arriving.start != file.size:
            metrics.OFFSET_MISMATCHES.inc()
        if arriving.start > file.size:
            raise try_again(f"Bytes are missing before this chunk: {file.size} are here.")
        hold = partial(self._hold_bytes, session)
        inflow = Inflow(file, arriving, self._faults, most=self._most(session), hold=hold)
        try:
            while piece := await body.next():
                session.heard, session.last_sent = self._clock.now(), next(self._sendings)
                await inflow.add(piece)
        except HungUpOn:
            raise try_again("The sender was silent for too long, or came again.") from None
        finally:
            await inflow.keep()
        total = session.record.total
        whole = arriving.ends_with_body if total is None else arriving.start + inflow.received == total
        if whole:
            await inflow.keep(everything=True)
        return whole

    def _sync(self, session: Session, file: DataFile) -> None:
        file.sync()
        if not session.is_named:
            self._shelf.sync_names()
            session.is_named = True

    def _finish(self, session: Session, file: DataFile) -> StoredObject:
        file.sync()
        failpoints.reach("bucket.bytes_synced")
        record = session.record
        try:
            if file.size < record.wish.least:
                raise too_small(record.wish.least)
            stored = self._ledger.put(record.wish, file.contents(record.key))
        except Refusal as refusal:
            self._end(session, refusal)
            raise
        self._settle(session, msgspec.structs.replace(record, object=stored))
        self._holders.discard(session)
        return stored

    def _end(self, session: Session, refusal: Refusal) -> None:
        why = (refusal.status, refusal.code, refusal.message)
        self._settle(session, msgspec.structs.replace(session.record, refused=why))
        self._remove_bytes(session)

    def _erase(self, session: Session) -> None:
        """The record first: bytes that no record names are swept at the next start."""
        over = session_over()
        session.record = msgspec.structs.replace(session.record, refused=(over.status, over.code, over.message))
        self._shelf.remove_session(session.record.key)
        failpoints.reach("bucket.session_erased")
        self._remove_bytes(session)

    def _remove_bytes(self, session: Session) -> None:
        try:
            self._shelf.remove_data(session.record.key)
        finally:
            self._holders.discard(session)

    def _settle(self, session: Session, record: SessionRecord) -> None:
        session.record, session.file = record, None
        self._open.discard(session)
        with suppress(OSError):  # it is told by the object's record, or comes to the same end again
            self._shelf.write_session(record)


async def _got_within(turn: asyncio.Lock, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await turn.acquire()
    except TimeoutError:
        return False
