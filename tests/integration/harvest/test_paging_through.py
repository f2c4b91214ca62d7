"""Every way in which a source leads from page to page, read by real executors: what is stored is what is there."""

import threading
from datetime import timedelta
from email.utils import format_datetime

import pytest
from tests.standins import Library
from tests.standins.tokens import Tokens
from tests.standins.wire import as_json
from tests.support.harvesting import CALM, past, written

from penstock.harvest.reading import Reader
from penstock.harvest.spec import Operation

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")
KINDS = ("offset", "page0", "page1", "token", "url", "time")


def library(records: int = 400, days: float = 2, seed: int = 3) -> Library:
    made = Library(records, days=days, seed=seed, habits=CALM)
    past(made)
    return made


class TestEveryKind:
    @pytest.mark.parametrize("kind", KINDS)
    async def test_what_is_stored_is_what_the_source_holds(self, beside, kind):
        async with beside("generic", library(), document=written(kind)) as here:
            await here.harvest(since=here.library.start)
            assert await here.stored() == here.served()
            assert await here.tasks() == {"SUCCEEDED": 6}

    @pytest.mark.parametrize("kind", ["offset", "page1", "token", "url"])
    async def test_a_source_that_names_no_total_is_read_to_its_end(self, beside, kind):
        document = written(kind, response={"totalPath": None})
        async with beside("generic", library(), document=document) as here:
            await here.harvest(since=here.library.start)
            assert await here.stored() == here.served()

    @pytest.mark.parametrize("kind", ["offset", "token"])
    async def test_a_total_that_is_named_on_the_first_page_alone_counts_for_all_of_them(self, beside, kind):
        made = Library(100, days=0.5, seed=3, habits=CALM)
        made.now = made.end + timedelta(days=1)
        async with beside("generic", made, document=written(kind, pagination={"pageSize": 30})) as here:
            here.api.names_total_once = True
            await here.harvest(since=made.start, until=made.end + timedelta(hours=12))
            assert await here.stored() == here.served()
            assert here.api.counts.total == 4  # read once
            assert await here.rows("select 1 from ing_task_run_batch where stats ? 'missing'") == []

    @pytest.mark.parametrize("kind", ["offset", "page0", "token", "url"])
    async def test_where_the_source_says_whether_there_is_more_its_word_counts(self, beside, kind):
        document = written(kind, pagination={"hasMorePath": "$.has_more", "pageSize": 100})
        made = Library(100, days=0.5, seed=3, habits=CALM)
        made.now = made.end + timedelta(days=1)
        async with beside("generic", made, document=document) as here:
            await here.harvest(since=made.start, until=made.end + timedelta(hours=12))
            assert await here.stored() == here.served()
            assert here.api.counts.total == 1  # a full page, and no second question


class TestLargeAnswers:
    async def test_they_are_read_off_the_event_loop(self, beside, monkeypatch):
        """Leases are renewed on it, and other sources are read."""
        is_on_loop = set()
        read = Reader.read

        def noted(self, body, **kwargs):
            if len(body) > 65_536:
                is_on_loop.add(threading.current_thread() is threading.main_thread())
            return read(self, body, **kwargs)

        monkeypatch.setattr(Reader, "read", noted)
        made = Library(1_000, days=0.5, seed=3, habits=CALM)
        made.now = made.end + timedelta(days=1)
        document = written("offset", pagination={"pageSize": 700})
        async with beside("generic", made, document=document) as here:
            await here.harvest(since=made.start, until=made.end + timedelta(hours=12))
            assert await here.stored() == here.served()
        assert is_on_loop == {False}


class TestLimits:
    async def test_a_window_above_the_last_page_is_cut_and_nothing_is_missing(self, beside):
        document = written("page1", pagination={"maxPage": 2, "pageSize": 20}, response={"totalPath": None})
        async with beside("generic", library(300), document=document) as here:
            await here.harvest(since=here.library.start)
            assert await here.stored() == here.served()
            states = await here.tasks()
            assert states["PARTIAL"] >= 2
            assert set(states) == {"PARTIAL", "SUCCEEDED"}
            assert await here.watermark() > here.library.end

    async def test_a_total_above_the_ceiling_cuts_before_the_second_page(self, beside):
        document = written("offset", pagination={"ceiling": 60, "pageSize": 20})
        async with beside("generic", library(300), document=document) as here:
            await here.harvest(since=here.library.start)
            assert await here.stored() == here.served()
            skipped = [row for row in await here.requests() if row["status_code"] == "SKIPPED"]
            assert skipped
            assert {row["page_no"] for row in skipped} == {0}

    async def test_what_cannot_be_cut_any_smaller_fails_and_holds_the_watermark(self, beside):
        document = written("offset", pagination={"ceiling": 20, "pageSize": 20},
                           window={"granularity": "1h", "minWindow": "1h", "align": "hour"})  # fmt: skip
        async with beside("generic", library(3000, days=1), document=document) as here:
            await here.harvest(since=here.library.start)
            assert (await here.tasks())["FAILED"] >= 24
            assert await here.watermark() == here.library.start
            errors = await here.rows("select distinct error ->> 'code' as code from ing_task where error is not null")
            assert [row["code"] for row in errors] == ["SOURCE_TRUNCATED"]

    async def test_doaj_serves_no_more_than_a_thousand_and_is_read_whole(self, beside):
        made = library(2600, days=0.1, seed=1)
        async with beside("doaj", made) as here:
            await here.harvest(since=made.start, until=made.end + timedelta(hours=1))
            assert await here.stored() == here.served()


class TestTokens:
    async def test_a_token_that_dies_between_two_batches_begins_the_slice_anew(self, beside):
        made = library(500, days=0.2)
        async with beside("crossref", made) as here:
            stop, api = [], here.api
            answer = api.answer

            def grow_old(request):
                stop.append(1)
                if len(stop) == 3:
                    api.skip(400)
                return answer(request)

            api.answer = grow_old
            await here.harvest(since=made.start, until=made.end, run={"pagination": {"pageSize": 100}})
            assert await here.stored() == here.served()
            assert await here.tasks() == {"SUCCEEDED": 1}

    async def test_a_token_that_is_known_to_be_old_is_not_sent_again(self, beside):
        made = library(500, days=0.2)
        async with beside("crossref", made) as here:
            asked = spied(here.api)
            await here.plan(since=made.start, until=made.end, run={"pagination": {"pageSize": 100}})

            async def has_begun() -> bool:
                return len(await here.requests()) >= 2

            await here.work_until(has_begun)
            assert await here.tasks() == {"QUEUED": 1}
            before = len(asked)
            here.library.advance(timedelta(minutes=5))
            await here.drain()
            assert "cursor=%2A" in asked[before] or "cursor=*" in asked[before]
            assert await here.stored() == here.served()

    @pytest.mark.parametrize("kind", ["token", "url", "offset"])
    async def test_a_source_that_leads_in_a_circle_fails_and_holds_the_watermark(self, beside, kind):
        made = library(500, days=0.2)
        document = written(kind, pagination={"pageSize": 50}, response={"totalPath": None})
        async with beside("generic", made, document=document) as here:
            answer, asked = here.api.answer, []

            def in_a_circle(request):
                asked.append(request if len(asked) < 2 else asked[-2])
                return answer(asked[-1])

            here.api.answer = in_a_circle
            await here.harvest(since=made.start, until=made.end)
            assert await here.tasks() == {"FAILED": 1}
            [task] = await here.rows("select error ->> 'code' as code from ing_task")
            assert task["code"] == "SOURCE_ENDLESS"
            assert await here.watermark() == made.start

    async def test_a_window_whose_tokens_die_again_and_again_is_cut(self, beside):
        """With a rest after every few requests that is longer than a token lives, it would never be read whole."""
        made = library(500, days=0.2)
        async with beside("crossref", made) as here:
            await here.plan(since=made.start, until=made.end, run={"pagination": {"pageSize": 10}})

            async def has_gone_on() -> bool:
                return len(await here.requests()) >= before + 2

            while "PARTIAL" not in await here.tasks():
                before = len(await here.requests())
                assert before < 200, "it begins again for ever"
                await here.work_until(has_gone_on)
                here.library.advance(timedelta(minutes=6))
            await here.drain()
            assert await here.stored() == here.served()
            assert await here.tasks() == {"PARTIAL": 1, "SUCCEEDED": 2}

    async def test_a_full_page_without_a_token_is_asked_for_once_more(self, beside):
        made = Library(50, days=0.5, seed=3, habits=CALM)
        past(made)
        document = written("token", pagination={"tailProbe": True, "pageSize": 50})
        async with beside("generic", made, document=document) as here:
            asked = spied(here.api)
            await here.harvest(since=made.start, until=made.end + timedelta(hours=12))
            assert len(asked) == 2
            assert asked[0] == asked[1]
            assert await here.stored() == here.served()


class TestWithoutTheFilter:
    async def test_a_source_that_cannot_filter_is_filtered_here(self, beside):
        made = library(300, days=3)
        window = {"supportsUpdatedSince": False, "clientFilter": True, "monotonic": True, "maxWindow": "3d"}
        document = written("offset", window=window, pagination={"orderBy": "updated"})
        async with beside("generic", made, document=without_bounds(document)) as here:
            middle = made.start + timedelta(days=1)
            await here.harvest(since=middle, until=middle + timedelta(days=1))
            truth = {one: shown for one, shown in here.served().items()
                     if middle <= shown.updated < middle + timedelta(days=1)}  # fmt: skip
            assert 0 < len(truth) < 300
            assert await here.stored() == truth
            assert await here.watermark() == middle + timedelta(days=1)


class TestClocks:
    async def test_a_source_whose_clock_is_behind_is_asked_so_much_later(self, beside):
        made = library(20, days=0.5)
        made.now = made.end
        async with beside("generic", made, document=written("offset")) as here:
            here.api.decorate = lambda _, response: response.headers.update(
                Date=format_datetime(made.now - timedelta(minutes=20), usegmt=True)
            )
            await here.harvest(since=made.start)
            assert await here.watermark() == made.end - timedelta(minutes=30)
            made.advance(timedelta(hours=2))
            await here.harvest()
            assert await here.watermark() == made.now - timedelta(minutes=30)
            here.api.decorate = lambda _, response: response.headers.update(Date=format_datetime(made.now, usegmt=True))
            made.advance(timedelta(hours=2))
            await here.harvest()
            made.advance(timedelta(hours=2))
            await here.harvest()
            assert await here.watermark() == made.now - timedelta(minutes=10)

    @pytest.mark.parametrize("behind", [timedelta(days=3), timedelta(days=20_000)])
    async def test_an_answer_that_is_days_old_holds_nothing_back(self, beside, behind):
        made = library(20, days=0.5)
        made.now = made.end
        async with beside("generic", made, document=written("offset")) as here:
            here.api.decorate = lambda _, response: response.headers.update(
                Date=format_datetime(made.now - behind, usegmt=True)
            )
            await here.harvest(since=made.start)
            assert await here.watermark() == made.end - timedelta(minutes=10)

    async def test_what_one_operation_saw_of_the_clock_the_next_one_corrects_for_all(self, beside):
        made = library(20, days=0.5)
        made.now = made.end
        async with beside("generic", made, document=written("offset")) as here:
            await here.harvest(since=made.start + timedelta(hours=6))
            here.api.decorate = lambda _, response: response.headers.update(
                Date=format_datetime(made.now - timedelta(hours=5), usegmt=True)
            )
            await here.harvest(operation=Operation.BACKFILL, since=made.start)
            here.api.decorate = lambda _, response: response.headers.update(Date=format_datetime(made.now, usegmt=True))
            made.advance(timedelta(hours=6))
            await here.harvest()  # as far as the clock that was seen allows; but it sees a better one
            await here.harvest()
            assert await here.watermark() == made.now - timedelta(minutes=10)


def without_bounds(document):
    """The same source, not able to filter by time."""

    def said(url: str) -> dict:
        made = document(url)
        query = made["endpoints"]["works"]["http"]["queryTemplate"]
        del query["from"], query["to"]
        return made

    return said


def scanned(kind: str, cursor: str = "TOKEN", **pagination):
    window = {"supportsUpdatedSince": False, "cursorType": cursor, "monotonic": True}
    return without_bounds(written(kind, window=window, pagination={"orderBy": "updated", **pagination}))


class TestScans:
    @pytest.mark.parametrize("first", [None, "*"])
    async def test_the_next_scan_goes_on_from_the_last_token(self, beside, first):
        made = library(230, days=2)
        past(made, 0.5)
        document = scanned("token", **({"initialToken": first} if first else {}))
        async with beside("generic", made, document=document) as here:
            await here.harvest()
            held = here.served()
            assert await here.stored() == held
            before = here.api.counts.total
            past(made)
            await here.harvest()
            assert await here.stored() == here.served()
            fresh = [one for one, shown in here.served().items() if held.get(one) != shown]
            assert here.api.counts.total - before <= -(-len(fresh) // 50) + 1

    async def test_the_ids_of_a_scan_are_not_kept_as_nothing_is_compared_with_them(self, beside):
        async with beside("generic", library(230, days=2), document=scanned("token")) as here:
            await here.harvest()
            assert await here.stored() == here.served()
            assert {row["ids_hash"] for row in await here.requests()} == {None}

    async def test_addresses_go_on_as_tokens_do(self, beside):
        made = library(230, days=2)
        past(made, 0.5)
        async with beside("generic", made, document=scanned("url")) as here:
            await here.harvest()
            held = here.served()
            assert await here.stored() == held
            before = here.api.counts.total
            past(made)
            await here.harvest()
            assert await here.stored() == here.served()
            fresh = [one for one, shown in here.served().items() if held.get(one) != shown]
            assert here.api.counts.total - before <= -(-len(fresh) // 50) + 1

    async def test_a_scan_whose_token_the_source_has_forgotten_begins_from_the_start_and_goes_on(self, beside):
        made = library(230, days=2)
        past(made, 0.5)
        async with beside("generic", made, document=scanned("token")) as here:
            await here.harvest()
            here.api.tokens = Tokens(None, here.api.moment)
            past(made, 0.8)
            await here.harvest()
            assert await here.stored() == here.served()
            before = here.api.counts.total
            await here.harvest()
            assert here.api.counts.total - before <= 1
            assert await here.tasks() == {"SUCCEEDED": 3}

    async def test_ids_that_grow_are_read_on_from_the_last_one(self, beside):
        held, asked = list(range(1, 131)), []

        def above(request):
            asked.append(int(request.query.get("token") or 0))
            part = [one for one in held if one > asked[-1]][: int(request.query["limit"])]
            items = [{"id": str(one), "updated": "2026-01-01T00:00:00Z"} for one in part]
            return as_json({"items": items, "last": str(part[-1]) if part else None})

        response = {"totalPath": None, "deletedPath": None, "deletedValue": None}
        window = {"supportsUpdatedSince": False, "cursorType": "ID", "monotonic": True}
        pagination = {"orderBy": "id", "nextTokenPath": "$.last", "shortPageEnds": True}
        document = without_bounds(written("token", window=window, pagination=pagination, response=response))
        async with beside("generic", library(1), document=document) as here:
            here.api.answer = above
            await here.harvest()
            assert asked == [0, 50, 100]
            held.extend(range(131, 150))
            await here.harvest()
            assert asked == [0, 50, 100, 130]
            assert {int(one) for one in await here.stored()} == set(held)
            (cursor,) = await here.rows("select cursor_type_code, normalized_numeric, cursor_value from ing_cursor")
            assert cursor == {"cursor_type_code": "ID", "normalized_numeric": 149, "cursor_value": "149"}


class TestPageSlices:
    async def test_a_source_that_knows_no_time_is_cut_into_stretches_of_pages(self, beside):
        window = {"supportsUpdatedSince": False, "monotonic": True}
        document = without_bounds(written("page1", window=window, pagination={"orderBy": "updated", "pageSize": 20},
                                          count={"queryTemplate": {"limit": "1"}},
                                          planning={"pagesPerSlice": 4}))  # fmt: skip
        made = library(230, days=2)
        past(made, 0.5)
        async with beside("generic", made, document=document) as here:
            await here.harvest()
            slices = await here.rows("select slice_spec -> 'bounds' -> 'page' as page from ing_plan_slice order by id")
            pages = [(row["page"]["fromPage"], row["page"]["toPage"]) for row in slices]
            assert pages == [(n, n + 4) for n in range(0, len(pages) * 4, 4)]
            assert len(pages) > 1
            assert await here.stored() == here.served()
            past(made)
            await here.harvest()
            assert await here.stored() == here.served()


def spied(api) -> list[str]:
    """The addresses that are asked for, as they arrive."""
    asked, answer = [], api.answer

    def note(request):
        asked.append(request.target)
        return answer(request)

    api.answer = note
    return asked
