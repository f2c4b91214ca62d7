"""Large bodies: whatever JSON a merchant fills them with, the event loop goes on answering others."""

import gc
import json

import pytest
from tests.support.edge import bearer
from tests.support.loop_lag import watched_loop

from penstock.api.access import LARGE_BODIES
from penstock.api.guard import LARGEST_BODY
from penstock.api.large_body import MOST_MARKS, StrictBody
from penstock.api.routes.etl_rules import NewRule
from penstock.api.routes.harvest_plans import HarvestOrder

MOST_LAG = 0.05  # seconds
RULES = "/api/v1/etl/rules"
JSON = {"Content-Type": "application/json"}


def filled(head: bytes, unit: bytes, tail: bytes) -> bytes:
    return head + unit * ((LARGEST_BODY - len(head) - len(tail)) // len(unit)) + tail


def keys(most: int = 90_000) -> bytes:
    """No two alike."""
    return b",".join(b'"%x":0' % each for each in range(most))


def costly(head: bytes, unit: bytes, tail: bytes) -> bytes:
    """As much as is read; the rest of the body is blanks."""
    marks = sum(unit.count(mark) for mark in (b"[", b"]", b"{", b"}", b":", b","))
    return filled(head + unit * ((MOST_MARKS - 20) // marks), b" ", tail)


SHAPES = {
    "lists": filled(b'{"name":"a","x":[', b"[],", b"[]]}"),
    "lists in a schema": filled(b'{"name":"a","json_schema":{"enum":[', b"[],", b"[]]}}"),
    "objects": filled(b'{"name":"a","x":[', b'{"":{}},', b"{}]}"),
    "unknown keys": b'{"name":"a",' + keys() + b"}",
    "keys in a schema": b'{"name":"a","json_schema":{' + keys() + b"}}",
    "deep nesting": filled(b'{"name":"a","x":', b"[", b""),
    "nesting as deep as is read, often": filled(b'{"name":"a","x":[', b"[" * 500 + b"]" * 500 + b",", b"1]}"),
    "long whole numbers": filled(b'{"name":"a","x":[', b"1" * 4_300 + b",", b"1]}"),
    "long fractions": filled(b'{"name":"a","x":[', b"1." + b"7" * 1_000 + b"e-300,", b"1]}"),
    "one endless number": filled(b'{"name":"a","x":', b"1", b"}"),
    "escapes": filled(b'{"name":"a","x":"', b"\\n", b'"}'),
    "escapes in a schema": filled(b'{"name":"a","json_schema":{"title":"', b"\\u0001", b'"}}'),
    "UTF-16": filled(b'{"name":"a","x":[', b"[],", b"[]]}")[: LARGEST_BODY // 2].decode().encode("utf-16-le"),
    "blanks": filled(b'{"name":"a","x":1', b"\n", b"}"),
    "bytes that are no text": filled(b'{"name":"', b"\xff", b'"}'),
}
READ = {
    "long whole numbers in a schema": filled(b'{"name":"a","json_schema":{"enum":[', b"1" * 1_000 + b",", b"1]}}"),
    "as many in a schema": costly(b'{"name":"a","json_schema":{"enum":[', b"[],", b"[]]}}"),
    "as much nesting as is read": costly(b'{"name":"a","x":[', b"[" * 500 + b"]" * 500 + b",", b"1]}"),
    "as much in a schema": costly(b'{"name":"a","json_schema":{"enum":[', b"[" * 500 + b"]" * 500 + b",", b"1]}}"),
    "as many objects in a schema": costly(b'{"name":"a","json_schema":{"enum":[', b'{"":{}},', b"{}]}}"),
    "as many keys as are read": b'{"name":"a",' + keys(MOST_MARKS // 2 - 20) + b"}",
    "as many in an example": b'{"name":"a","examples":[{' + keys(MOST_MARKS // 2 - 20) + b"}]}",
    "as many keys in a schema": b'{"name":"a","json_schema":{' + keys(MOST_MARKS // 2 - 20) + b"}}",
    "as many numbers in a schema": costly(b'{"name":"a","json_schema":{"enum":[', b"1e123456,", b"1]}}"),
    "as many strings in a schema": costly(b'{"name":"a","json_schema":{"enum":[', b'"\\ud83da",', b"1]}}"),
}


@pytest.fixture(autouse=True)
async def _loaded(client):
    """The first request of its kind loads modules; what other tests left is collected before."""
    body = b'{"name":"a","x":"' + b"y" * (17 << 10) + b'"}'
    await client.post(RULES, content=body, headers=JSON | bearer("uploader", merchant="m-before"))
    gc.collect()


class TestHostileBodies:
    @pytest.mark.parametrize("kind", SHAPES)
    async def test_the_loop_answers_while_one_is_refused(self, client, kind):
        headers = JSON | bearer("uploader", merchant=f"m-{list(SHAPES).index(kind)}")
        async with watched_loop() as lag:
            answer = await client.post(RULES, content=SHAPES[kind], headers=headers)
        assert answer.status_code in (400, 413)
        assert len(answer.content) < 4_000
        assert lag.own < MOST_LAG

    @pytest.mark.parametrize("kind", READ)
    async def test_the_loop_answers_while_one_is_read_that_has_as_many_marks_as_it_may(self, database, client, kind):
        headers = JSON | bearer("uploader", merchant=f"m-read-{list(READ).index(kind)}")
        async with watched_loop() as lag:
            answer = await client.post(RULES, content=READ[kind], headers=headers)
        assert answer.status_code in (201, 400)
        assert lag.own < MOST_LAG

    @pytest.mark.parametrize("field", [b"params", b"run", b"candidates", b"x"])
    async def test_orders_of_a_harvest_are_no_different(self, client, field):
        order = b'{"source":"a","%s":{%s}}' % (field, keys(MOST_MARKS // 2 - 20))
        headers = JSON | bearer("operator", merchant=f"m-{field.decode()}")
        async with watched_loop() as lag:
            answer = await client.post("/api/v1/harvest/plans/preview", content=order, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "REQUEST_INVALID")
        assert lag.own < MOST_LAG

    async def test_of_very_many_wrong_ids_the_first_is_told(self, client):
        signals = b'{"source":"a","ids":[%s1]}' % (b"1," * (MOST_MARKS - 20))
        async with watched_loop() as lag:
            answer = await client.post(
                "/api/v1/harvest/signals", content=signals, headers=JSON | bearer("operator", merchant="m-ids")
            )
        assert (answer.status_code, list(answer.json()["details"]["fields"])) == (400, ["body.ids.0"])
        assert lag.own < MOST_LAG

    @pytest.mark.parametrize("kind", ["application/json", "application/yaml"])
    async def test_sources_are_no_different(self, client, kind):
        headers = {"Content-Type": kind} | bearer("admin", merchant=f"m-{kind[-4:]}")
        async with watched_loop() as lag:
            answer = await client.put("/api/v1/harvest/sources/a", content=SHAPES["lists"], headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "REQUEST_TOO_LARGE")
        assert answer.json()["details"]["limit_marks"] == MOST_MARKS
        assert lag.own < MOST_LAG

    async def test_a_body_in_parts_is_counted_as_a_whole(self, client):
        sent = 0

        async def parts():
            nonlocal sent
            for begin in range(0, LARGEST_BODY, 16 << 10):
                sent += 1
                yield SHAPES["lists"][begin : begin + (16 << 10)]

        answer = await client.post(RULES, content=parts(), headers=JSON | bearer("uploader", merchant="m-parts"))
        assert (answer.status_code, sent) == (413, 6)  # 16 KiB of lists have 16,384 marks

    async def test_a_long_number_is_found_in_parts_too(self, client):
        async def parts():
            yield b'{"name":"a","x":' + b"1" * 600
            yield b"2" * 401 + b"}"

        answer = await client.post(RULES, content=parts(), headers=JSON | bearer("uploader", merchant="m-digits"))
        assert (answer.status_code, answer.json()["details"]["limit_digits"]) == (413, 1_000)

    async def test_very_many_unknown_fields_are_one_problem_in_the_readers_language(self, client):
        headers = JSON | bearer("uploader", merchant="m-many")
        told = []
        for language in ("en", "zh"):
            headers |= {"Accept-Language": language}
            answer = await client.post(RULES, content=READ["as many keys as are read"], headers=headers)
            told.append(answer.json()["details"]["fields"])
        assert told == [{"body": "has more than 100 fields"}, {"body": "最多 100 个字段"}]

    def test_every_model_of_a_large_body_refuses_very_many_fields(self, app):
        """A later one too: of each unknown field a problem would be made."""
        bodies = [each.body_field for each in app.routes if each.path.startswith(LARGE_BODIES) and each.body_field]
        assert {each.field_info.annotation for each in bodies} >= {NewRule, HarvestOrder}
        for body in bodies:
            assert issubclass(body.field_info.annotation, StrictBody)


class TestHonestBodies:
    async def test_the_largest_rule_that_may_be_kept_is_not_too_costly_to_read(self, database, client):
        properties = {f"p{n}": {"type": "string", "title": f"Part, {n}", "enum": ["a", "b"]} for n in range(4_000)}
        example = {"text": "a, b: c\n" * 2_200, "result": {f"p{n}": "a" for n in range(2_000)}}
        rule = {
            "name": "r", "json_schema": {"type": "object", "properties": properties}, "system_prompt": "Say, " * 4_000,
            "examples": [example],
        }  # fmt: skip
        assert len(json.dumps(rule["json_schema"])) > 250_000
        answer = await client.post(RULES, json=rule, headers=bearer("uploader", merchant="m-honest"))
        assert answer.status_code == 201, answer.text[:500]
