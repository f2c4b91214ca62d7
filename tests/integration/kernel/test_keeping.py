"""Work and what keeps it going: whichever ends first ends both."""

import asyncio

import pytest

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.keeping import beside


class Watched:
    """Says whether it was cancelled."""

    def __init__(self, *, ends_with=None, after=3600):
        self.ends_with, self.after, self.was_cancelled = ends_with, after, False

    async def __call__(self):
        try:
            await asyncio.sleep(self.after)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if isinstance(self.ends_with, Exception):
            raise self.ends_with
        return self.ends_with


class TestBeside:
    async def test_the_work_ends_the_watch(self):
        watch = Watched()
        assert await beside(watch, Watched(ends_with=7, after=0.01)) == 7
        assert watch.was_cancelled

    async def test_a_watch_that_loses_the_lease_ends_the_work(self):
        work = Watched()
        with pytest.raises(PenstockError) as lost:
            await beside(Watched(ends_with=PenstockError(error_codes.LEASE_LOST), after=0.01), work)
        assert lost.value.code is error_codes.LEASE_LOST
        assert work.was_cancelled

    async def test_whoever_waits_is_cancelled_with_both(self):
        watch, work = Watched(), Watched()
        waiting = asyncio.create_task(beside(watch, work))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (watch.was_cancelled, work.was_cancelled) == (True, True)

    async def test_what_the_work_raises_is_raised(self):
        with pytest.raises(ValueError, match="wrong"):
            await beside(Watched(), Watched(ends_with=ValueError("wrong"), after=0.0))
