"""The different ids that the lists of a task have held: in all readings together, and in the present one alone.

They are kept as hashes of 8 bytes and stored with each batch, so that whoever goes on with a task knows them. Only a
reading's own ids say whether it was whole: those of an earlier one may have left since and would hide what is missing.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_WIDTH = 8


class Found(NamedTuple):
    """How many different ids."""

    ever: int  # in all readings of the list
    here: int  # in this one


class Tally:
    def __init__(self) -> None:
        self._ever: set[bytes] = set()
        self._here: set[bytes] = set()
        self._reading = 1

    def note(self, ids: Sequence[str], reading: int) -> bytes:
        """Returns what is to be stored of them."""
        hashes = [hashlib.blake2b(each.encode(), digest_size=_WIDTH).digest() for each in ids]
        self._add(hashes, reading)
        return b"".join(hashes)

    def recall(self, stored: Iterable[tuple[int, bytes]]) -> None:
        """What was stored of earlier batches, each with the number of its reading."""
        for reading, hashes in sorted(stored):
            self._add([hashes[at : at + _WIDTH] for at in range(0, len(hashes), _WIDTH)], reading)

    def _add(self, hashes: Sequence[bytes], reading: int) -> None:
        if reading != self._reading:
            self._reading, self._here = reading, set()
        self._ever.update(hashes)
        self._here.update(hashes)

    def found(self, reading: int) -> Found:
        return Found(len(self._ever), len(self._here) if reading == self._reading else 0)


def hash_of(ids: Sequence[str]) -> str | None:
    """Of a page, whatever the order of its ids; none where there is nothing to compare."""
    text = "\n".join(sorted(set(ids)))
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=_WIDTH).hexdigest() if text else None
