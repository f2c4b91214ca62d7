"""Looking into files takes places that all merchants share; on an instance one subject's calls take their turn.

However many files a merchant sends at once, and however long each takes, the others find places between them.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class Turns:
    """So many at a time for each subject."""

    def __init__(self) -> None:
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # gone when nobody waits

    @asynccontextmanager
    async def of(self, subject: str, at_once: int = 1) -> AsyncIterator[None]:
        places = self._places.get(subject)
        if places is None:
            places = self._places[subject] = asyncio.Semaphore(at_once)
        async with places:
            yield
