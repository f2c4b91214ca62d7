"""Places that all share are taken in turn."""

import asyncio

from penstock.documents.turns import Turns


class Watched:
    """Counts how many are inside at once."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.inside = 0
        self.most = 0

    async def enter(self, subject: str, until: asyncio.Event, at_once: int = 1) -> None:
        async with self._turns.of(subject, at_once):
            self.inside += 1
            self.most = max(self.most, self.inside)
            await until.wait()
            self.inside -= 1


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


class TestTurns:
    async def test_one_subject_is_inside_once(self):
        watched, leave = Watched(Turns()), asyncio.Event()
        all_of_one = [asyncio.create_task(watched.enter("a", leave)) for _ in range(5)]
        await settle()
        assert watched.inside == 1
        leave.set()
        await asyncio.gather(*all_of_one)
        assert watched.most == 1

    async def test_another_subject_does_not_wait_for_it(self):
        turns, leave = Turns(), asyncio.Event()
        watched = Watched(turns)
        tasks = [asyncio.create_task(watched.enter(subject, leave)) for subject in "aab"]
        await settle()
        assert watched.inside == 2
        leave.set()
        await asyncio.gather(*tasks)

    async def test_as_many_as_allowed(self):
        watched, leave = Watched(Turns()), asyncio.Event()
        tasks = [asyncio.create_task(watched.enter("a", leave, 3)) for _ in range(5)]
        await settle()
        assert watched.inside == 3
        leave.set()
        await asyncio.gather(*tasks)

    async def test_who_gives_up_waiting_gives_the_turn_on(self):
        watched, leave = Watched(Turns()), asyncio.Event()
        first, gone, last = (asyncio.create_task(watched.enter("a", leave)) for _ in range(3))
        await settle()
        gone.cancel()
        leave.set()
        await asyncio.gather(first, last)
        assert watched.most == 1

    async def test_nothing_is_remembered_of_those_who_left(self):
        turns, leave = Turns(), asyncio.Event()
        leave.set()
        await Watched(turns).enter("a", leave)
        assert len(turns._places) == 0
