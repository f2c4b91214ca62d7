"""Where a slice stands, and what follows: pure functions from an answer to the next position.

A position is all that is needed to make the next request, and it is committed with every batch: whoever takes the
task over begins there. A two-phase source has two kinds of request: lists of ids, and details of the ids that are
pending. Pending ids are fetched before the next list is asked for, so they stay few.

Pages that are counted, not linked, are compared with the one before: a source that sends the same page once more is
asked again. When the list has ended, the different ids of this reading are held against the total that the source
names. If some are missing, the list is read again, until one that held still brings nothing new; one that never holds
still, or that ends with a full page, is cut into smaller slices. What stays short is stored and not closed. A source
that sends pages in a circle, or empty ones without end, is given up.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from penstock.harvest.executing.position import Ask, Overflow, Phase, Position
from penstock.harvest.executing.tally import Found, hash_of
from penstock.harvest.page import Page
from penstock.harvest.slices import Dimension, LocalExpr, SliceSpec, Span, half_of
from penstock.harvest.spec import PageType, Spec
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

_MOST_READINGS, _MOST_REPEATS, _MOST_CIRCLES = 4, 3, 10
_MOST_EMPTY = 200  # sources that filter behind their pages send some
_COUNTED = frozenset({PageType.OFFSET, PageType.PAGE})
_LINKED = frozenset({PageType.TOKEN, PageType.URL})


@dataclass(frozen=True, slots=True)
class Course:
    """What does not change while a slice is worked through."""

    spec: Spec
    slice: SliceSpec
    local: LocalExpr

    @property
    def is_two_phase(self) -> bool:
        return self.spec.detail is not None and (self.spec.batching.two_phase.enabled or bool(self.local.ids))

    @property
    def page_limit(self) -> int | None:
        """How many results can be paged through at the most."""
        pages = self.spec.pagination
        limits = [pages.ceiling, pages.max_page * pages.page_size if pages.max_page else None]
        return min((limit for limit in limits if limit), default=None)

    @property
    def can_bridge(self) -> bool:
        return self.slice.dimension is Dimension.TIME and self.spec.pagination.bridge_to_time

    @property
    def is_comparable(self) -> bool:
        """The ids of the list are held against the total that the source names."""
        return (
            self.spec.pagination.reconcile
            and self.spec.pagination.type is not PageType.TIME  # each of its windows has a total of its own
            and self.slice.dimension is Dimension.TIME
            and not self.spec.window.client_filter
            and not (self.page_limit is not None and not self.can_bridge)
        )

    @property
    def known_link(self) -> str | None:
        """A scan goes on from here: a token or an address that the scan before it was given."""
        return self.slice.bounds.scan.after if self.slice.bounds.scan else None

    def begin(self, *, anew: bool = False) -> Position:
        """The first position. `anew`: where the source no longer knows what a scan was to go on from."""
        pages, link = self.spec.pagination, None if anew else self.known_link
        is_address = pages.type is PageType.URL
        if self.slice.dimension is Dimension.ID:
            return Position(pending=self.local.ids, is_listed=True)
        first = self.slice.bounds.page.from_page if self.slice.bounds.page else 0
        return Position(
            page=first,
            offset=pages.initial_offset + first * pages.page_size,
            token=(None if is_address else link) or pages.initial_token,
            url=(link if is_address else None) or pages.initial_url,
            since=self.slice.span.start if self.slice.span and pages.type is PageType.TIME else None,
        )

    def resume(self, position: Position, now: datetime) -> Position:
        """Where to go on after a break: a token that has died meanwhile is worth nothing, so the list begins anew."""
        life = self.spec.pagination.token_ttl
        if life and position.token_at and now - position.token_at > life and not position.is_listed:
            return self.restart(position)
        return position

    def is_worn(self, position: Position) -> bool:
        """Its tokens have died again and again before it was read: it is too much for one go."""
        return self.slice.dimension is Dimension.TIME and position.reading > _MOST_READINGS

    def restart(self, position: Position, known: int = 0) -> Position:
        """The list from the beginning; pending ids stay pending."""
        first, known = self.begin(anew=position.page == 0), known or position.known
        return msgspec.structs.replace(first, pending=position.pending, reading=position.reading + 1, known=known)

    def may_restart(self, ask: Ask, position: Position) -> bool:
        """The source refused: perhaps only the token, which it may have forgotten."""
        is_old = ask.page_no > 0 or self.known_link in {ask.token, ask.url} - {None}
        return bool(ask.token or ask.url) and is_old and position.reading < _MOST_READINGS - 1

    # What to ask for -------------------------------------------------------------------------------------------
    def ask(self, position: Position) -> Ask | None:
        """None: there is nothing left to ask for."""
        if position.is_exhausted:
            return None
        if position.pending and (position.is_listed or len(position.pending) >= self.spec.batching.two_phase.threshold):
            return Ask(Phase.DETAIL, self.slice.span, ids=self._next_ids(position))
        return Ask(
            Phase.LIST, self._span(position), position.page, position.offset, self.spec.pagination.page_size,
            position.token, position.url,
        )  # fmt: skip

    def _next_ids(self, position: Position) -> tuple[str, ...]:
        return position.pending[: position.detail_size or self.spec.batching.id_batch_size]

    def _span(self, position: Position) -> Span | None:
        whole = self.slice.span
        if whole is None or position.since is None:
            return whole
        step = self._step(position)
        return Span(position.since, whole.end if step is None else min(whole.end, position.since + step))

    def _step(self, position: Position) -> timedelta | None:
        if position.step_seconds is not None:
            return timedelta(seconds=position.step_seconds)
        return self.spec.pagination.time_step

    # What follows an answer ------------------------------------------------------------------------------------
    def after_details(self, position: Position) -> Position:
        """These ids are done; the next batch has its full size again."""
        done = len(self._next_ids(position))
        return msgspec.structs.replace(position, pending=position.pending[done:], detail_size=None)

    def with_fewer_ids(self, position: Position) -> Position | None:
        """A batch was refused: try half of it, to find the id that spoils it. None: it was that one id alone."""
        asked = len(self._next_ids(position))
        return None if asked == 1 else msgspec.structs.replace(position, detail_size=max(1, asked // 2))

    def after_list(self, position: Position, page: Page, found: Found, now: datetime) -> Position | Overflow:
        """`found`: this page included."""
        if self._is_page_before(position, page):
            return msgspec.structs.replace(position, repeats=position.repeats + 1)
        before = position.pending
        position = msgspec.structs.replace(
            position,
            total=max((n for n in (position.total, page.total) if n is not None), default=None),
            has_grown=position.has_grown or _is_larger(page.total, position.total),
            faulty=position.faulty
            + (0 if position.is_probe else sum(each.provider_id is None for each in page.faults)),
            pending=position.pending + tuple(dict.fromkeys(page.ids)) if self.is_two_phase else (),
        )
        if self.spec.pagination.type is PageType.TIME:
            return self._after_window(position, page, before)
        if overflow := self._overflow(position, page):
            return overflow
        self._refuse_standing_link(position, page)
        if self._has_next(position, page):
            return self._step_on(self._unless_endless(position, page), page, now)
        if self._wants_probe(position, page):
            return msgspec.structs.replace(position, is_probe=True)
        return self._end(position, page, found)

    def _is_page_before(self, position: Position, page: Page) -> bool:
        """The same ids in whatever order. A source that goes on sending them is believed in the end."""
        is_same = position.held is not None and position.held == hash_of(page.ids)
        return self.spec.pagination.type in _COUNTED and is_same and position.repeats < _MOST_REPEATS

    def _unless_endless(self, position: Position, page: Page) -> Position:
        """Compared with the page before and with one mark, which moves on at every power of two: a circle of any length
        comes upon it, and a position stays as small as it is."""
        held = hash_of(page.ids)
        circles = position.circles + (held is not None and held in {position.held, position.mark})
        empty = 0 if page.served else position.empty + 1
        if circles > _MOST_CIRCLES or empty > _MOST_EMPTY:
            reason = "pages come again in a circle" if circles > _MOST_CIRCLES else f"{empty} empty pages in a row"
            raise PenstockError(error_codes.SOURCE_ENDLESS, reason=reason, page=position.page)
        is_milestone = position.page & (position.page + 1) == 0
        mark = held if is_milestone else position.mark
        return msgspec.structs.replace(position, circles=circles, empty=empty, mark=mark)

    def _overflow(self, position: Position, page: Page) -> Overflow | None:
        limit = self.page_limit
        if not self.can_bridge:
            return None
        if page.is_truncated:
            return Overflow("the source cut the results short", self.slice.span)
        if limit is None:
            return None
        if position.total is not None and position.total > limit:
            return Overflow(f"{position.total} results, of which {limit} can be read", self.slice.span, position.total)
        # A page across the limit comes back short and would pass for the last one; a total would have told.
        pages = position.page + (2 if position.total is None else 1)
        is_at_limit = pages * self.spec.pagination.page_size >= limit + (position.total is None)
        if is_at_limit if self._has_next(position, page) else self._stops_at(limit, position, page):
            return Overflow(f"{limit} results or more", self.slice.span)
        return None

    def _stops_at(self, limit: int, position: Position, page: Page) -> bool:
        """A source that links pages and names no total just stops linking at its limit; a full step cannot be cut."""
        is_linked = self.spec.pagination.type in _LINKED and position.total is None
        return is_linked and position.offset + page.served >= limit and self._is_divisible

    def _has_next(self, position: Position, page: Page) -> bool:
        pages = self.spec.pagination
        bounds, limit = self.slice.bounds.page, self.page_limit
        if bounds and position.page + 1 >= bounds.to_page:
            return False
        if limit is not None and not self.can_bridge and (position.page + 1) * pages.page_size >= limit:
            return False
        if page.has_more is not None:
            return page.has_more and (pages.type not in _LINKED or self._leads_on(position, page))
        if pages.type in _LINKED:
            is_last = pages.short_page_ends and page.served < pages.page_size
            return self._leads_on(position, page) and page.served > 0 and not is_last
        return page.served >= pages.page_size if pages.short_page_ends is not False else page.served > 0

    def _refuse_standing_link(self, position: Position, page: Page) -> None:
        """Raises where there is more without a way to it, or the page before comes again: our token is not heard."""
        if self.spec.pagination.type not in _LINKED or self._leads_on(position, page):
            return
        is_again = page.served > 0 and position.held == hash_of(page.ids) and bool(page.next_token or page.next_url)
        if page.has_more or (is_again and position.total is None):
            raise PenstockError(error_codes.SOURCE_ENDLESS, reason="its next link leads nowhere", page=position.page)

    def _leads_on(self, position: Position, page: Page) -> bool:
        """A link that leads to where we are is an end; sources say so in that way."""
        if self.spec.pagination.type is PageType.URL:
            return bool(page.next_url) and page.next_url != position.url
        return bool(page.next_token) and page.next_token != position.token

    def _wants_probe(self, position: Position, page: Page) -> bool:
        """A full page without a link may be a source that forgot it: asked for once more before it is believed."""
        pages = self.spec.pagination
        is_linked = pages.type in _LINKED and not (page.next_token or page.next_url)
        return pages.tail_probe and is_linked and not position.is_probe and page.served >= pages.page_size

    def _step_on(self, position: Position, page: Page, now: datetime) -> Position:
        return msgspec.structs.replace(
            position,
            page=position.page + 1,
            offset=position.offset + self.spec.pagination.page_size,
            token=page.next_token,
            token_at=now if page.next_token and self.spec.pagination.token_ttl else None,
            url=page.next_url,
            is_probe=False,
            held=hash_of(page.ids),
            repeats=0,
        )

    def _end(self, position: Position, page: Page, found: Found) -> Position | Overflow:
        held, total = found.here + position.faulty, self._total_to_find(position, page)
        if not self.is_comparable or total is None or held >= total:
            return msgspec.structs.replace(position, is_listed=True, is_short=self._is_cut_off(position, page))
        proves_nothing = position.reading == 1 or found.ever > position.known or self._has_shifted(position, page)
        if proves_nothing and position.reading < _MOST_READINGS:
            return self.restart(position, known=found.ever)
        if proves_nothing and position.page and self._is_divisible:
            return Overflow("the list does not hold still while it is read", self.slice.span, pages=position.page + 1)
        if page.served >= self.spec.pagination.page_size and self._is_divisible:  # as if there were a limit
            return Overflow(f"{held} of {total} results came", self.slice.span)
        return msgspec.structs.replace(position, is_listed=True, is_short=True)

    @property
    def _is_divisible(self) -> bool:
        span = self.slice.span
        return self.can_bridge and span is not None and half_of(span, self.spec.window.granularity) is not None

    def _has_shifted(self, position: Position, page: Page) -> bool:
        """Items left while pages were counted: what slipped by in the reading before may have done so again."""
        has_fallen = _is_larger(position.total, page.total) and not position.has_grown
        return has_fallen and self.spec.pagination.type in _COUNTED

    def _is_cut_off(self, position: Position, page: Page) -> bool:
        """More than can be paged through, of a source that is not to be asked in smaller windows."""
        if self.can_bridge or self.slice.dimension is Dimension.PAGE:
            return False
        limit, total = self.page_limit, position.total
        return page.is_truncated or (limit is not None and total is not None and total > limit)

    def _total_to_find(self, position: Position, page: Page) -> int | None:
        """Items that leave a window while it is read make the total fall.

        Where pages are counted they shift the others, so the largest total counts. Behind a link nothing shifts, so the
        last one does, unless the end is suspicious: a full page whose link leads back to itself.
        """
        pages = self.spec.pagination
        is_linked = pages.type in _LINKED
        is_natural = page.served < pages.page_size or not (page.next_token or page.next_url)
        return page.total if is_linked and is_natural and page.total is not None else position.total

    # TIME: one request per window ------------------------------------------------------------------------------
    def _after_window(self, position: Position, page: Page, before: tuple[str, ...]) -> Position | Overflow:
        """A window that may have been cut is asked for again in half; one that was not moves us to its end."""
        span, whole = self._span(position), self.slice.span
        if span is None or whole is None:
            raise ValueError("pagination by time needs a slice of time")
        half = half_of(span, self.spec.window.granularity)
        is_full, is_short = self._is_full(page), self._is_short(page)
        if is_full and half is None:
            return Overflow(f"{page.served} results in the smallest window", Span(span.start, whole.end))
        if half is not None and (is_full or is_short):
            return msgspec.structs.replace(
                position, step_seconds=(half - span.start).total_seconds(), pending=before, total=None
            )
        wider = None if position.step_seconds is None else self._wider(position.step_seconds)
        return msgspec.structs.replace(
            position, since=span.end, page=position.page + 1, step_seconds=wider, is_listed=span.end >= whole.end,
            is_short=position.is_short or is_short,
        )  # fmt: skip

    def _is_full(self, page: Page) -> bool:
        """As many items as can come in one answer: there may be more."""
        pages = self.spec.pagination
        asked = pages.page_size if _asks_for_size(self.spec) else None
        limits = [limit for limit in (pages.ceiling, pages.max_page_size, asked) if limit]
        return page.is_truncated or (bool(limits) and page.served >= min(limits))

    def _is_short(self, page: Page) -> bool:
        """Fewer items than the source says there are. In the smallest window that is noted, and believed."""
        return self.spec.pagination.reconcile and page.total is not None and page.total > page.served

    def _wider(self, seconds: float) -> float:
        """Twice as wide, but never wider than the source may be asked for."""
        step = self.spec.pagination.time_step
        return seconds * 2 if step is None else min(seconds * 2, step.total_seconds())


def _asks_for_size(spec: Spec) -> bool:
    http = spec.http
    templates = (http.path_template, *http.query_template.values(), *http.body_template.values())
    return any("page.size" in template for template in templates)


def _is_larger(total: int | None, before: int | None) -> bool:
    return total is not None and before is not None and total > before
