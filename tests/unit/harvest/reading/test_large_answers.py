"""Large answers: read in a thread, within limits on what their items may grow to and on the time that they may take."""

import asyncio
import json

import pytest
from tests.support.loop_lag import watched_loop

from penstock.harvest.reading import rules
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

XML = {"format": "XML", "itemsPath": "/r/a | /r/b", "idPath": "id", "updatedAtPath": "at", "totalPath": "/r/total"}
AT = "2024-01-01T00:00:00Z"


def xml_answer(count):
    items = "".join(f"<{'ab'[no % 2]}><id>{no}</id><at>{AT}</at></{'ab'[no % 2]}>" for no in range(count))
    return f"<r><total>{count}</total>{items}</r>".encode()


def json_answer(count):
    return json.dumps({"total": count, "items": [{"id": str(no), "at": AT} for no in range(count)]}).encode()


class TestTheEventLoop:
    @pytest.mark.parametrize(("said", "answer"), [(XML, xml_answer), ({"totalPath": "$.total"}, json_answer)])
    async def test_others_go_on_while_a_large_answer_is_read(self, reader, said, answer):
        body, reading = answer(20_000), reader(**said)
        async with watched_loop() as lag:
            pages = await asyncio.gather(*(reading.read_aside(body) for _ in range(2)))
            assert await reading.count_aside(body) == 20_000
        assert all(page.ids == [str(no) for no in range(20_000)] for page in pages)
        assert lag.own < 0.03

    async def test_an_answer_that_is_none_is_refused_as_ever(self, reader):
        with pytest.raises(PenstockError) as refused:
            await reader().read_aside(b"[" * 100_000)
        assert refused.value.code is error_codes.SOURCE_ANSWER_INVALID


class TestLimits:
    def test_items_that_lie_in_each_other_do_not_fill_the_memory(self, reader):
        body = b"<a><id>1</id>" * 200 + b"x" * 2_000_000 + b"</a>" * 200
        with pytest.raises(PenstockError) as refused:
            reader(format="XML", itemsPath="//a", idPath="id", updatedAtFrom="WINDOW").read(body)
        assert refused.value.code is error_codes.SOURCE_ANSWER_INVALID
        assert "bytes in all" in refused.value.details["reason"]

    def test_an_answer_that_takes_too_long_is_refused(self, reader, monkeypatch):
        monkeypatch.setattr(rules, "_MOST_CPU_SECONDS", -1)
        with pytest.raises(PenstockError) as refused:
            reader().read(json_answer(1_000))
        assert refused.value.code is error_codes.SOURCE_ANSWER_INVALID
        assert "CPU time" in refused.value.details["reason"]
