"""Wishes that come together are fulfilled together, and each gets its own answer."""

import asyncio

import pytest

from penstock.kernel.together import Together


class Doubling:
    """Answers with the double; waits for a sign if one is set."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.may_go = asyncio.Event()
        self.may_go.set()

    async def __call__(self, wishes: list[int]) -> list[int | Exception]:
        self.groups.append(wishes)
        await self.may_go.wait()
        if 13 in wishes:
            raise OSError("nothing of this group")
        return [ValueError("odd") if wish == 7 else wish * 2 for wish in wishes]


@pytest.fixture
async def doubling() -> Doubling:
    return Doubling()


class TestGathering:
    async def test_each_gets_its_own_answer(self, doubling):
        crowd = Together(doubling, most=10)
        assert await asyncio.gather(*(crowd.ask(n) for n in range(20, 90))) == [n * 2 for n in range(20, 90)]

    async def test_a_lone_wish_does_not_wait_and_those_behind_it_gather(self, doubling):
        crowd = Together(doubling, most=4)
        await asyncio.gather(*(crowd.ask(n) for n in range(20, 30)))
        assert doubling.groups == [[20], [21, 22, 23, 24], [25, 26, 27, 28], [29]]

    async def test_several_groups_may_be_under_way(self, doubling):
        crowd = Together(doubling, most=4, at_once=2)
        doubling.may_go.clear()
        asked = [asyncio.ensure_future(crowd.ask(n)) for n in range(20, 25)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert doubling.groups == [[20], [21]]
        doubling.may_go.set()
        assert await asyncio.gather(*asked) == [40, 42, 44, 46, 48]
        assert doubling.groups == [[20], [21], [22, 23, 24]]


class TestFaults:
    async def test_a_fault_of_one_is_told_to_that_one(self, doubling):
        crowd = Together(doubling, most=4)
        found = await asyncio.gather(*(crowd.ask(n) for n in (1, 6, 7, 8)), return_exceptions=True)
        assert (found[:2], found[3]) == ([2, 12], 16)
        assert isinstance(found[2], ValueError)

    async def test_a_group_that_fails_fails_for_all_of_it_and_the_next_goes_on(self, doubling):
        crowd = Together(doubling, most=2)
        found = await asyncio.gather(*(crowd.ask(n) for n in (1, 13, 2, 3, 4)), return_exceptions=True)
        assert [isinstance(each, OSError) for each in found] == [False, True, True, False, False]
        assert await crowd.ask(5) == 10

    async def test_who_gives_up_disturbs_nobody(self, doubling):
        crowd = Together(doubling, most=4)
        doubling.may_go.clear()
        first, gone, last = (asyncio.ensure_future(crowd.ask(n)) for n in (1, 2, 3))
        await asyncio.sleep(0)
        first.cancel()
        gone.cancel()
        doubling.may_go.set()
        assert await last == 6
        assert await crowd.ask(4) == 8
