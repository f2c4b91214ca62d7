"""Sources that say one thing and send another: never done with less than what they say they have."""

from datetime import timedelta

import pytest
from tests.standins import Library
from tests.support.harvesting import CALM, past, written

KINDS = ["offset", "page1", "token", "url", "time"]


@pytest.fixture
def library() -> Library:
    made = Library(230, days=0.4, seed=3, habits=CALM)
    past(made)
    return made


class TestTotals:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_one_that_is_never_reached_fails_by_name_keeps_what_came_and_holds_the_watermark(
        self, beside, library, kind
    ):
        window = {"granularity": "1d", "minWindow": "1d", "align": "day"}  # as small as can be
        document = written(kind, pagination={"pageSize": 400, "maxPageSize": 400}, window=window)
        async with beside("generic", library, document=document) as here:
            here.api.claims = 7
            await here.harvest(since=library.start, until=library.end + timedelta(days=1))
            assert await here.stored() == here.served()
            assert set(await here.tasks()) == {"FAILED"}
            errors = await here.rows("select distinct error ->> 'code' as code from ing_task")
            assert [row["code"] for row in errors] == ["SOURCE_SHORT"]
            assert await here.watermark() <= library.start

    @pytest.mark.parametrize("kind", ["offset", "page1", "token", "url"])
    async def test_an_estimate_is_believed_where_the_source_file_says_so(self, beside, library, kind):
        document = written(kind, pagination={"pageSize": 50, "reconcile": False})
        async with beside("generic", library, document=document) as here:
            here.api.claims = 7
            await here.harvest(since=library.start)
            assert await here.stored() == here.served()
            assert set(await here.tasks()) == {"SUCCEEDED"}

    @pytest.mark.parametrize("kind", ["offset", "page1", "token", "url"])
    async def test_a_limit_that_nobody_wrote_down_is_met_with_smaller_windows(self, beside, library, kind):
        document = written(kind, pagination={"pageSize": 50, "hasMorePath": "$.has_more"})
        async with beside("generic", library, document=document) as here:
            here.api.serves_at_most = 100
            await here.harvest(since=library.start)
            assert await here.stored() == here.served()
            assert set(await here.tasks()) == {"SUCCEEDED", "PARTIAL"}


class TestLinks:
    @pytest.mark.parametrize("total", ["$.total", None])
    async def test_a_token_that_the_source_does_not_hear_fails_by_name(self, beside, library, total):
        """The parameter has another name there: the first page comes again and again."""
        document = written(
            "token", pagination={"pageSize": 50, "hasMorePath": "$.has_more"}, response={"totalPath": total}
        )
        async with beside("generic", library, document=document) as here:
            answer = here.api.answer
            first = []

            def deaf(request):
                first.append(request)
                return answer(first[0])

            here.api.answer = deaf
            await here.harvest(since=library.start, until=library.end)
            assert await here.tasks() == {"FAILED": 1}
            [task] = await here.rows("select error ->> 'code' as code from ing_task")
            assert task["code"] == "SOURCE_ENDLESS"
            assert await here.watermark() <= library.start
