"""Which objects there are, and who must still be told. An object comes to be with one rename, and so does its notice.

A name is written by one thread at a time, so a precondition holds from the look until the record is on disk. Bytes
are synced before the record names them; what an old record named is removed after the new one is there. Killed
anywhere, either the old or the new record stands, with its notices, and files that none names are swept at the start.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.embedded.bucket import metrics
from penstock.embedded.bucket.records import Notice, ObjectRecord, StoredObject, Wish, object_key
from penstock.embedded.bucket.refusals import Refusal, no_such_object, precondition_failed
from penstock.embedded.bucket.shelf import Shelf
from penstock.kernel import failpoints
from penstock.kernel.clock import Clock

_STRIPES = 64


@dataclass(frozen=True, slots=True)
class Bytes:
    """A data file, synced, and what it holds."""

    data: str
    size: int
    md5: str
    crc32c: str
    session: str | None = None


class Ledger:
    """All calls but the looks block: make them in threads."""

    def __init__(self, shelf: Shelf, clock: Clock, *, tells: bool) -> None:
        self._shelf = shelf
        self._clock = clock
        self._tells = tells  # is there anybody to tell?
        self._records: dict[str, ObjectRecord] = {}
        self._stripes = [threading.Lock() for _ in range(_STRIPES)]
        self._counting = threading.Lock()
        self._newest = 0
        self.published: Callable[[Notice], None] = lambda _notice: None

    def load(self) -> dict[str, StoredObject]:
        """From disk; gives what sessions have ended in."""
        by_session: dict[str, StoredObject] = {}
        for key, record in self._shelf.objects():
            self._records[key] = record
            for stored in _objects_of(record):
                self._newest = max(self._newest, stored.generation)
                if stored.session:
                    by_session[stored.session] = stored
        return by_session

    def find(self, bucket: str, name: str) -> StoredObject | None:
        record = self._records.get(object_key(bucket, name))
        return record.object if record else None

    def objects(self, bucket: str) -> list[StoredObject]:
        """All, sorted by name."""
        found = [record.object for record in list(self._records.values()) if record.object]
        return sorted((each for each in found if each.bucket == bucket), key=lambda each: each.name.encode())

    def notices(self) -> list[Notice]:
        return [notice for record in list(self._records.values()) for notice in record.notices]

    def data_files(self) -> Iterable[str]:
        return [record.object.data for record in self._records.values() if record.object]

    def saw(self, generation: int) -> None:
        self._newest = max(self._newest, generation)

    def put(self, wish: Wish, found: Bytes) -> StoredObject:
        """The object is there from now on, or a Refusal says why not; then the data file is still the caller's."""
        _check_hashes(wish, found)
        key = object_key(wish.bucket, wish.name)
        with self._stripe(key):
            before = self._records.get(key)
            _check_generation(before, wish.generation_match)
            stored = self._stored(wish, found)
            notices = before.notices if before else ()
            old = before.object if before else None
            notice = Notice(id=str(stored.generation), object=stored, overwrote=old.generation if old else None)
            record = ObjectRecord(object=stored, notices=(*notices, notice) if self._tells else notices)
            self._shelf.sync_names()
            failpoints.reach("bucket.before_object")
            self._shelf.write_object(key, record)
            self._records[key] = record
            failpoints.reach("bucket.after_object")
            if old:
                self._shelf.remove_data(old.data)
        if self._tells:
            self.published(notice)
        return stored

    def refusal_of(self, wish: Wish) -> Refusal | None:
        """Why `put` would refuse any bytes now: another object has the name, or none has it. None: it would not."""
        current = _generation(self._records.get(object_key(wish.bucket, wish.name)))
        if wish.generation_match in (None, current):
            return None
        metrics.PRECONDITIONS_FAILED.inc()
        return precondition_failed()

    def copy(self, source: StoredObject, wish: Wish) -> StoredObject:
        try:
            data = self._shelf.share_data(source.data)
        except FileNotFoundError:
            raise no_such_object() from None
        try:
            return self.put(wish, Bytes(data, source.size, source.md5, source.crc32c))
        except Refusal:
            self._shelf.remove_data(data)
            raise

    def delete(self, bucket: str, name: str, *, generation: int | None, generation_match: int | None) -> None:
        """What must still be told of it will be."""
        key = object_key(bucket, name)
        with self._stripe(key):
            record = self._records.get(key)
            if record is None or record.object is None or generation not in (None, record.object.generation):
                raise no_such_object()
            _check_generation(record, generation_match)
            self._replace(key, ObjectRecord(object=None, notices=record.notices))
            self._shelf.remove_data(record.object.data)

    def told(self, notice: Notice) -> None:
        key = object_key(notice.object.bucket, notice.object.name)
        with self._stripe(key):
            if record := self._records.get(key):
                left = tuple(each for each in record.notices if each.id != notice.id)
                self._replace(key, ObjectRecord(object=record.object, notices=left))

    def _replace(self, key: str, record: ObjectRecord) -> None:
        if record.object is None and not record.notices:
            self._shelf.remove_object(key)
            self._records.pop(key, None)
            return
        self._shelf.write_object(key, record)
        self._records[key] = record

    def _stored(self, wish: Wish, found: Bytes) -> StoredObject:
        now = self._clock.now()
        with self._counting:
            self._newest = max(self._newest + 1, int(now.timestamp() * 1_000_000))
            generation = self._newest
        return StoredObject(
            bucket=wish.bucket, name=wish.name, generation=generation, size=found.size, md5=found.md5,
            crc32c=found.crc32c, content_type=wish.content_type, metadata=wish.metadata, data=found.data,
            created=now, session=found.session,
        )  # fmt: skip

    def _stripe(self, key: str) -> threading.Lock:
        return self._stripes[int(key[:8], 16) % _STRIPES]


def _objects_of(record: ObjectRecord) -> Iterable[StoredObject]:
    yield from (notice.object for notice in record.notices)
    if record.object:
        yield record.object


def _generation(record: ObjectRecord | None) -> int:
    return record.object.generation if record and record.object else 0


def _check_generation(before: ObjectRecord | None, wanted: int | None) -> None:
    if wanted not in (None, _generation(before)):
        metrics.PRECONDITIONS_FAILED.inc()
        raise precondition_failed()


def _check_hashes(wish: Wish, found: Bytes) -> None:
    if wish.md5 not in (None, found.md5) or wish.crc32c not in (None, found.crc32c):
        raise Refusal(400, "BadDigest", "The bytes that arrived do not have the hash that was announced.")
