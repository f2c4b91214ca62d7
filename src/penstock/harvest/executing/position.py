"""The position of a slice: all that is needed to make its next request, committed with every batch."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import msgspec

from penstock.harvest.slices import Span


class Phase(StrEnum):
    LIST = "LIST"
    DETAIL = "DETAIL"


class Position(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Stored in `ing_task_run.checkpoint`."""

    page: int = 0  # pages of the list read so far
    offset: int = 0
    token: str | None = None
    token_at: datetime | None = None  # when the source gave it to us
    url: str | None = None
    since: datetime | None = None  # TIME: up to here the slice is read
    step_seconds: float | None = None  # TIME: width of the next request's window
    pending: tuple[str, ...] = ()  # ids whose details are still to come
    detail_size: int | None = None  # smaller than the batch size while a bad id is being looked for
    is_listed: bool = False  # the list has ended
    is_probe: bool = False  # the last page is being asked for once more
    reading: int = 1  # how often the list has been begun
    known: int = 0  # different ids that the readings before this one found
    total: int | None = None  # the largest total that the source named in this reading
    has_grown: bool = False  # it has named a larger one than before: an estimate, or items come
    faulty: int = 0  # items of this reading without a readable id
    safe_to: datetime | None = None  # the source's clock was behind: nothing after this may be closed
    held: str | None = None  # what the page before held, as a hash
    repeats: int = 0  # how often it has come again, where pages are counted
    mark: str | None = None  # what a page further back held
    circles: int = 0  # how often a page came that was there before
    empty: int = 0  # pages in a row without items
    is_short: bool = False  # fewer ids than the source says it has, and reading again did not help

    @property
    def is_finished(self) -> bool:
        return self.is_exhausted and not self.is_short

    @property
    def is_exhausted(self) -> bool:
        """There is nothing left to ask for; whether that is all that there is, is another matter."""
        return self.is_listed and not self.pending


@dataclass(frozen=True, slots=True)
class Ask:
    """The next request."""

    phase: Phase
    span: Span | None = None
    page_no: int = 0  # from 0
    offset: int = 0
    size: int = 0
    token: str | None = None
    url: str | None = None
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Overflow:
    """More than can be paged through, or than holds still: the rest of the slice must be cut into smaller ones."""

    reason: str
    rest: Span | None
    total: int | None = None  # results in it, where the source says
    pages: int | None = None  # cut into so many parts, if there are as many steps
