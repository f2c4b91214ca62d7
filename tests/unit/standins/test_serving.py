"""What all stand-ins share: keep-alive, counts, faults on demand, limits, the control address, a process of its own."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import httpx
import pytest
from tests.standins import NAMES, Faults, Library, overrides, serve, standin
from tests.standins.limits import Bucket, Stretch
from tests.support.clock import TurnedClock

ROOT = Path(__file__).parents[3]


class TestAnswering:
    @pytest.mark.parametrize("name", NAMES)
    async def test_each_answers_at_its_address(self, library: Library, client: httpx.AsyncClient, name: str):
        async with standin(name, library) as api:
            base = overrides(name, api.url)["http"]["baseUrl"]
            assert base.startswith(api.url)
            assert (await client.get(f"{api.url}/__control")).json()["name"] == name

    async def test_several_requests_go_through_one_connection(self, library: Library):
        async with standin("generic", library) as api:
            port = int(api.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for number in range(3):
                writer.write(f"GET /none/items/r-{number:07d} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                assert f"r-{number:07d}".encode() in await reader.readexactly(length)
            writer.close()
            assert api.counts.by_status == {200: 3}

    async def test_an_answer_is_compressed_for_those_who_ask(self, library: Library, client: httpx.AsyncClient):
        async with standin("generic", library) as api:
            packed = await client.get(f"{api.url}/none/offset")
            plain = await client.get(f"{api.url}/none/offset", headers={"Accept-Encoding": "identity"})
        assert packed.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        assert packed.content == plain.content

    async def test_an_unknown_name_is_refused_with_the_names_there_are(self, library: Library):
        with pytest.raises(ValueError, match="crossref"):
            async with standin("pubmde", library):
                pass


class TestCounting:
    async def test_pages_read_again_are_seen(self, library: Library, client: httpx.AsyncClient):
        async with standin("generic", library) as api:
            for offset in (0, 100, 100, 200):
                await client.get(f"{api.url}/none/offset", params={"offset": offset})
            assert api.counts.read_again == 1
            assert api.counts.total == 4

    async def test_requests_at_the_same_time_are_counted(self, library: Library, client: httpx.AsyncClient):
        async with standin("generic", library, latency=0.2) as api:
            await asyncio.gather(*(client.get(f"{api.url}/none/offset") for _ in range(4)))
            assert api.counts.most_in_flight == 4
            assert api.counts.in_flight == 0


class TestFaults:
    async def ask(self, client: httpx.AsyncClient, url: str, **query: int) -> httpx.Response:
        return await client.get(f"{url}/none/offset", params={"limit": 50, **query})

    async def test_refusals_and_failures(self, library: Library, client: httpx.AsyncClient):
        async with standin("generic", library, faults=Faults(rate_429=1)) as api:
            assert (await self.ask(client, api.url)).status_code == 429
            api.faults.change(rate_429=0, rate_500=1)
            assert (await self.ask(client, api.url)).status_code == 503

    async def test_a_reset_connection(self, library: Library, client: httpx.AsyncClient):
        async with standin("generic", library, faults=Faults(reset=1)) as api:
            with pytest.raises(httpx.TransportError):
                await self.ask(client, api.url)
            assert api.counts.resets == 1
            assert api.counts.pages == {}

    async def test_a_cut_body_is_no_json(self, library: Library, client: httpx.AsyncClient):
        async with standin("generic", library, faults=Faults(truncated_json=1)) as api:
            response = await self.ask(client, api.url)
        assert response.status_code == 200
        with pytest.raises(ValueError, match=r"."):
            response.json()

    async def test_a_wrong_content_type_is_a_wrong_name_or_a_wrong_body(
        self, library: Library, client: httpx.AsyncClient
    ):
        async with standin("generic", library, faults=Faults(wrong_content_type=1)) as api:
            answers = [await self.ask(client, api.url) for _ in range(20)]
        kinds = {answer.headers["content-type"].partition(";")[0] for answer in answers}
        assert kinds == {"text/plain", "text/html"}
        assert all(answer.text.startswith(("{", "<html")) for answer in answers)

    async def test_a_slow_body_is_whole(self, library: Library, client: httpx.AsyncClient):
        async with standin("generic", library, faults=Faults(slow_body=1, slow_seconds=0.05)) as api:
            assert len((await self.ask(client, api.url)).json()["items"]) == 50

    async def test_a_repeated_page_holds_what_came_before(self, library: Library, client: httpx.AsyncClient):
        async with standin("generic", library) as api:
            first = (await self.ask(client, api.url)).json()["items"]
            api.faults.change(repeat_page=1)
            assert (await self.ask(client, api.url, offset=50)).json()["items"] == first
            api.faults.change(repeat_page=0)
            assert (await self.ask(client, api.url, offset=50)).json()["items"] != first

    async def test_reading_on_after_a_repeated_token_page_misses_nothing(
        self, library: Library, client: httpx.AsyncClient
    ):
        async with standin("generic", library, faults=Faults(repeat_page=0.4, seed=2)) as api:
            seen, token = [], "*"
            while token:
                answer = (await client.get(f"{api.url}/none/token", params={"token": token})).json()
                seen += [item["id"] for item in answer["items"]]
                token = answer["next"]
        assert len(seen) > len(set(seen))
        assert set(seen) == set(api.records_at(library.now))

    async def test_shuffled_and_doubled_items_and_wandering_totals(self, library: Library, client: httpx.AsyncClient):
        async with standin("generic", library) as api:
            plain = (await self.ask(client, api.url)).json()
            api.faults.change(out_of_order=1, duplicate_ids=1, changing_totals=1)
            spoiled = (await self.ask(client, api.url)).json()
        before, after = ([item["id"] for item in answer["items"]] for answer in (plain, spoiled))
        assert after[: len(before)] != before
        assert set(after) == set(before)
        assert len(after) == len(before) + 3
        assert spoiled["total"] != plain["total"]

    async def test_the_same_seed_strikes_the_same_requests(self, library: Library, client: httpx.AsyncClient):
        runs = []
        for _ in range(2):
            async with standin("generic", library, faults=Faults(rate_500=0.5, seed=5)) as api:
                runs.append([(await self.ask(client, api.url)).status_code for _ in range(12)])
        assert runs[0] == runs[1]
        assert set(runs[0]) == {200, 503}

    def test_an_unknown_fault_is_refused(self):
        with pytest.raises(ValueError, match="rate_500"):
            Faults().change(rate_5000=1)


class TestLimits:
    def test_a_stretch_admits_so_many_in_any_second(self):
        stretch = Stretch(2)
        assert [stretch.admits(moment) for moment in (0, 0.1, 0.2, 0.9, 1.0, 1.05, 1.11)] == [
            True, True, False, False, True, False, True,
        ]  # fmt: skip

    def test_a_bucket_admits_a_burst_and_then_its_rate(self):
        bucket = Bucket(2, 5)
        assert [bucket.admits(0) for _ in range(6)] == [True] * 5 + [False]
        assert bucket.admits(0.5)
        assert not bucket.admits(0.6)

    async def test_limits_can_be_turned_off(self, library: Library, client: httpx.AsyncClient):
        clock = TurnedClock()
        async with standin("generic", library, rate=1, clock=clock.monotonic) as api:
            statuses = [(await client.get(f"{api.url}/none/offset")).status_code for _ in range(2)]
            api.control(enforce_rate=False)
            statuses.append((await client.get(f"{api.url}/none/offset")).status_code)
        assert statuses == [200, 429, 200]


class TestControl:
    async def test_time_faults_and_counts_are_turned_from_outside(self, library: Library, client: httpx.AsyncClient):
        async with standin("generic", library) as api:
            await client.get(f"{api.url}/none/offset")
            change = {
                "now": "2026-01-03T00:00:00+00:00",
                "advance": 60,
                "faults": {"rate_500": 1},
                "reset_counts": True,
            }
            told = (await client.post(f"{api.url}/__control", json=change)).json()
            assert told["now"] == "2026-01-03T00:01:00+00:00"
            assert told["counts"]["total"] == 0
            assert (await client.get(f"{api.url}/none/offset")).status_code == 503
            assert api.counts.total == 1


class TestTruth:
    @pytest.mark.parametrize("name", NAMES)
    async def test_each_names_a_record_by_one_id_and_finds_it_again(self, library: Library, name: str):
        async with standin(name, library) as api:
            records = api.records_at(library.now)
            assert len(records) == library.records
            assert [api.number_of(api.id_of(number)) for number in range(100)] == list(range(100))
            assert api.number_of("nothing") is None

    async def test_withdrawn_records_can_vanish(self, library: Library):
        deleted = sum(entry.is_deleted for entry in library.at(library.now).values())
        async with standin("crossref", library, vanishing=True) as api:
            assert len(api.records_at(library.now)) == library.records - deleted


class TestProcesses:
    async def test_a_process_prints_its_address_first_and_ends_on_interrupt(self, client: httpx.AsyncClient):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.standins", "crossref", "--records", "50", "--days", "3",
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        url = (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()
        response = await client.get(f"{url}/v1/works", params={"rows": 0})
        assert response.json()["message"]["total-results"] > 0
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 30) == 130

    async def test_served_records_appear_as_the_clock_goes_on(self):
        async with serve("generic", records=500, days=2, seed=1) as served:
            held = served.library.at(served.library.now)
            assert 100 < len(held) < 400  # half of the two days is still to come
