"""Rules that take too much work: refused with their reason, while everybody else is served."""

import asyncio
import time

import pytest
from tests.support.etl_world import RULES
from tests.support.loop_lag import watched_loop
from tests.support.page_pdfs import line, written_page
from tests.support.pdfs import text_pages

MOST_LAG = 0.25  # seconds


def rule(schema, *results, **more):
    return {"name": "r", "json_schema": schema, "examples": [{"text": "t", "result": each} for each in results], **more}


MIXED_NAMES = rule({"required": [each for n in range(5_000) for each in (n, f"s{n}")]})
LONG_ENUM = rule({"type": "array", "items": {"enum": [2] * 2_000 + [1]}}, [1] * 2_000)
MANY_PARTS = rule({"items": {"allOf": [{}] * 4_900}}, [1] * 10_000)
HONEST = rule({"type": "object", "properties": {f"property_{n}": {"type": "string"} for n in range(4_900)}})


WIDE = rule({"anyOf": [{"type": "string"}] * 4_900}, [1] * 30_000)


@pytest.fixture(autouse=True)
async def _loaded(alice):
    """The first rule of a process loads modules and starts the pool."""
    await alice.rule(postprocess_mode="skip")


class TestWriting:
    @pytest.mark.parametrize(
        ("content", "status", "code", "path"),
        [
            (MIXED_NAMES, 400, "ETL_RULE_INVALID", "/json_schema/required/0"),
            (LONG_ENUM, 201, None, None),
            (MANY_PARTS, 400, "ETL_RULE_TOO_COSTLY", "/examples/0/result"),
            (HONEST, 201, None, None),
        ],
        ids=["names of mixed types", "a long enum", "many subschemas", "4,900 properties"],
    )
    async def test_the_loop_answers_while_a_rule_is_checked(self, alice, content, status, code, path):
        async with watched_loop() as lag:
            answer = await alice.http.post(RULES, json=content, timeout=60)
        assert answer.status_code == status, answer.text[:500]
        assert lag.own < MOST_LAG
        if code:
            told = answer.json()
            assert told["code"] == code
            details = told["details"]
            assert (details["problems"][0] if "problems" in details else details)["path"] == path

    async def test_no_transaction_is_open_while_a_change_is_checked(self, alice):
        rule_id = await alice.rule(**rule({"type": "array"}))
        change = {"json_schema": WIDE["json_schema"], "examples": WIDE["examples"]}
        async with watched_loop() as lag:
            changing = asyncio.create_task(alice.http.put(f"{RULES}/{rule_id}", json=change, timeout=60))
            await asyncio.sleep(0.2)  # it takes a second
            assert not changing.done()
            locked = await alice.rows("select 1 from etl_rule where rule_id = %s for update nowait", rule_id)
            answer = await changing
        assert len(locked) == 1
        assert answer.json()["code"] == "ETL_RULE_TOO_COSTLY"
        assert lag.own < MOST_LAG

    async def test_rules_are_written_only_so_often(self, world):
        settings = {"ETL_RULE_BURST": "2", "ETL_RULE_RATE_PER_MIN": "0.1"}
        alice, bob = await world.somebody(**settings), await world.somebody(**settings)
        plain = {"postprocess_mode": "skip"}
        codes = [(await alice.http.post(RULES, json={"name": f"r{n}", **plain})).status_code for n in range(3)]
        assert codes == [201, 201, 429]
        assert (await bob.http.post(RULES, json={"name": "r", **plain})).status_code == 201


class TestTrying:
    async def test_tries_at_once_leave_threads_and_loop_to_others(self, world, alice):
        """1,000 labels that are almost those of 100 lines."""
        names = {f"property number {n:05} x": {"type": "string"} for n in range(1_000)}
        rule_id = await alice.rule(**rule({"type": "object", "properties": names}, postprocess_mode="rules"))
        text = "\n".join(f"property number {n:05} y: value of it" for n in range(100))
        bob = await world.somebody()
        async with watched_loop() as lag:
            trying = [
                asyncio.create_task(alice.http.post(f"{RULES}/{rule_id}/try", json={"text": text}, timeout=60))
                for _ in range(2)
            ]
            await asyncio.sleep(0.2)
            begun = time.monotonic()
            await bob.upload(text_pages(1), "a.pdf")
            waited = time.monotonic() - begun
            answers = await asyncio.gather(*trying)
        assert {each.json()["code"] for each in answers} == {"ETL_RULE_TOO_COSTLY"}
        assert waited < 2
        assert lag.own < MOST_LAG

    async def test_an_honest_rule_says_what_it_found(self, alice):
        schema = {"type": "object", "properties": {"invoice_no": {"type": "string"}, "total": {"type": "number"}}}
        rule_id = await alice.rule(**rule(schema, postprocess_mode="rules"))
        answer = await alice.http.post(
            f"{RULES}/{rule_id}/try", json={"text": "Invoice Number: A-17\nTotal: 12345678901234567890123"}
        )
        assert answer.json()["data"] == {"invoice_no": "A-17", "total": 12345678901234567890123}
        assert answer.json()["metadata"] == {"strategy": "rules", "fields_found": 2}


class TestTasks:
    async def test_a_rule_that_is_too_costly_fails_its_own_task_and_another_merchant_does_not_wait(self, world, alice):
        """Each element of a list of 2,500 is looked at by 1,000 schemas."""
        items = {"type": "string", "allOf": [{}] * 1_000}
        schema = {"type": "object", "properties": {"list": {"type": "array", "items": items}}}
        rule_id = await alice.rule(**rule(schema, postprocess_mode="rules"))
        page = written_page(line(10, 700, "list: " + ",".join(["ab"] * 2_500), size=0.05))
        bob = await world.somebody()
        hostile = await alice.submit(page, rule_id=rule_id)
        await asyncio.sleep(0.3)
        begun = time.monotonic()
        assert (await bob.ended(await bob.submit(text_pages(1))))["status"] == "completed"
        waited = time.monotonic() - begun
        failed = await alice.ended(hostile)
        assert (failed["status"], failed["error"]["code"]) == ("failed", "ETL_RULE_TOO_COSTLY")
        assert (await alice.row(hostile))["postprocess_attempts"] == 1
        assert waited < 20
