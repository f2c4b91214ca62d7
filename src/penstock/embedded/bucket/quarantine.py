"""Removes old objects from the quarantine, where those were moved that were not what they were announced as."""

from penstock.embedded.bucket.ledger import Ledger
from penstock.embedded.bucket.refusals import Refusal
from penstock.embedded.bucket.settings import BucketSettings
from penstock.embedded.bucket.threads import in_thread
from penstock.kernel.clock import Clock

_FOLDER = "quarantine/"


class Quarantine:
    """The folder of one bucket."""

    def __init__(self, ledger: Ledger, settings: BucketSettings, clock: Clock) -> None:
        self._ledger = ledger
        self._settings = settings
        self._clock = clock

    async def expire(self) -> int:
        """Deletes what is too old, and of too much the oldest; returns how many objects."""
        now, kept, gone = self._clock.now(), 0, 0
        held = [each for each in self._ledger.objects(self._settings.name) if each.name.startswith(_FOLDER)]
        for each in sorted(held, key=lambda one: one.generation, reverse=True):
            kept += each.size
            if now - each.created > self._settings.quarantine_days or kept > self._settings.quarantine_bytes:
                gone += await in_thread(self._delete, each.name, each.generation)
        return gone

    def _delete(self, name: str, generation: int) -> int:
        try:
            self._ledger.delete(self._settings.name, name, generation=generation, generation_match=None)
        except Refusal:  # replaced or deleted since we looked
            return 0
        return 1
