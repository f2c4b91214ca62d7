"""Random pages, in any order and two at a time, end where ten lines of Python say they should."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.records import EARLY, PLACE, page_of, stored

from penstock.harvest.records import Counts, upsert
from penstock.harvest.records.sifting import outranks
from penstock.kernel.db import Database

_item = st.tuples(
    st.sampled_from(["a", "b", "c", "d", "é", "10.1/x"]),
    st.integers(0, 3).map(lambda hours: EARLY + timedelta(hours=hours)),
    st.none() | st.sampled_from(["1", "2", "10", "2.5", "v1", "v2", "1a"]),
)
_pages = st.lists(st.lists(_item, max_size=25), min_size=1, max_size=6)


def body_of(item) -> bytes:
    """Like the real thing: what is the same version has the same content."""
    given, updated, version = item
    return f"{given} {updated:%H} {version}".encode()


def beats(new, old) -> bool:
    return new[1] > old[1] or (new[1] == old[1] and outranks(new[2], old[2]))


def model(pages) -> tuple[dict, list[Counts]]:
    held, revisions, counts = {}, {}, []
    for page in pages:
        newest: dict = {}
        for item in page:
            if item[0] not in newest or beats(item, newest[item[0]]):
                newest[item[0]] = item
        fresh = [name for name in newest if name not in held]
        changed = [name for name, item in newest.items() if name in held and beats(item, held[name])]
        for name in fresh + changed:
            held[name], revisions[name] = newest[name], revisions.get(name, 0) + 1
        counts.append(Counts(len(fresh), len(changed), len(page) - len(fresh) - len(changed)))
    return {name: (*held[name][1:], body_of(held[name]).decode(), revisions[name]) for name in held}, counts


async def put(database: Database, place, items) -> Counts:
    async with database.transaction() as tx:
        return await upsert(tx, place, page_of(*((name, at, body_of((name, at, v)), v) for name, at, v in items)))


async def clear(database: Database) -> None:
    async with database.transaction() as tx:
        await tx.execute("delete from ing_record")


class TestAgainstTheModel:
    @given(pages=_pages)
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_one_after_the_other(self, database: Database, loop: asyncio.AbstractEventLoop, pages):
        async def walk():
            await clear(database)
            return [await put(database, PLACE, page) for page in pages], await stored(database)

        counts, records = loop.run_until_complete(walk())
        assert (records, counts) == model(pages)

    @given(pages=_pages, turned=st.randoms(use_true_random=False))
    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_in_any_order_two_at_a_time(self, database: Database, loop: asyncio.AbstractEventLoop, pages, turned):
        pages = [
            [item for item in page if item[2] is not None] for page in pages
        ]  # else "equal keeps" asks who was first
        order = turned.sample(pages, len(pages))

        async def lane(mine):
            return [await put(database, replace(PLACE, announces=True), page) for page in mine]

        async def walk():
            await clear(database)
            async with asyncio.timeout(30):
                lanes = await asyncio.gather(lane(order[::2]), lane(order[1::2]))
            return [each for counts in lanes for each in counts], await stored(database)

        counts, records = loop.run_until_complete(walk())
        wanted, _ = model(pages)
        assert {name: record[0:3] for name, record in records.items()} == {
            name: record[0:3] for name, record in wanted.items()
        }
        assert sum(each.inserted for each in counts) == len(wanted)
        assert sum(each.inserted + each.updated for each in counts) == sum(record[3] for record in records.values())
        assert sum(each.inserted + each.updated + each.skipped for each in counts) == sum(map(len, pages))
