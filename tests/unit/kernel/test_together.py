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

    async def until_begun(self, groups: int) -> None:
        async with asyncio.timeout(10):
            while len(self.groups) < groups:
                await asyncio.sleep(0)

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

    async def test_those_that_come_while_a_group_is_under_way_gather(self, doubling):
        crowd = Together(doubling, most=4)
        doubling.may_go.clear()
        first = asyncio.ensure_future(crowd.ask(20))
        await doubling.until_begun(1)
        others = [asyncio.ensure_future(crowd.ask(n)) for n in range(21, 30)]
        doubling.may_go.set()
        await asyncio.gather(first, *others)
        assert doubling.groups == [[20], [21, 22, 23, 24], [25, 26, 27, 28], [29]]

    async def test_several_groups_may_be_under_way(self, doubling):
        crowd = Together(doubling, most=4, at_once=2)
        doubling.may_go.clear()
        asked = [asyncio.ensure_future(crowd.ask(n)) for n in range(20, 30)]
        await doubling.until_begun(2)
        assert doubling.groups == [[20, 21, 22, 23], [24, 25, 26, 27]]
        doubling.may_go.set()
        assert await asyncio.gather(*asked) == [n * 2 for n in range(20, 30)]
        assert doubling.groups[2:] == [[28, 29]]


class TestFaults:
    async def test_a_fault_of_one_is_told_to_that_one(self, doubling):
        crowd = Together(doubling, most=4)
        found = await asyncio.gather(*(crowd.ask(n) for n in (1, 6, 7, 8)), return_exceptions=True)
        assert (found[:2], found[3]) == ([2, 12], 16)
        assert isinstance(found[2], ValueError)

    async def test_a_group_that_fails_fails_for_all_of_it_and_the_next_goes_on(self, doubling):
        crowd = Together(doubling, most=2)
        found = await asyncio.gather(*(crowd.ask(n) for n in (1, 2, 13, 3, 4)), return_exceptions=True)
        assert [isinstance(each, OSError) for each in found] == [False, False, True, True, False]
        assert await crowd.ask(5) == 10

    async def test_who_gives_up_disturbs_nobody(self, doubling):
        crowd = Together(doubling, most=4)
        doubling.may_go.clear()
        first = asyncio.ensure_future(crowd.ask(1))
        await doubling.until_begun(1)
        gone, last = (asyncio.ensure_future(crowd.ask(n)) for n in (2, 3))
        await asyncio.sleep(0)
        first.cancel()
        gone.cancel()
        doubling.may_go.set()
        assert await last == 6
        assert await crowd.ask(4) == 8

    async def test_what_nobody_waits_for_any_more_is_not_begun(self, doubling):
        crowd = Together(doubling, most=2)
        doubling.may_go.clear()
        first = asyncio.ensure_future(crowd.ask(1))
        await doubling.until_begun(1)
        others = [asyncio.ensure_future(crowd.ask(n)) for n in (2, 3, 4, 5)]
        await asyncio.sleep(0)
        others[0].cancel()
        others[2].cancel()
        doubling.may_go.set()
        assert await asyncio.gather(first, others[1], others[3]) == [2, 6, 10]
        assert doubling.groups == [[1], [3, 5]]

    async def test_when_all_have_gone_the_next_still_is_served(self, doubling):
        crowd = Together(doubling, most=2)
        doubling.may_go.clear()
        asked = [asyncio.ensure_future(crowd.ask(n)) for n in (1, 2, 3)]
        await doubling.until_begun(1)
        for each in asked:
            each.cancel()
        doubling.may_go.set()
        await asyncio.gather(*asked, return_exceptions=True)
        assert await asyncio.wait_for(crowd.ask(4), 10) == 8
        assert doubling.groups == [[1, 2], [4]]
