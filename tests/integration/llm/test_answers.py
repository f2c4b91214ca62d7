"""What a model may answer, and what becomes of it: a value that fits, or a failure with a name."""

import pytest
from tests.standins.openai_like import completion, endless, http, keeps_alive, refused, refused_flat, says, sends
from tests.support.asking import GOOD, SCHEMA

from penstock.kernel.errors import PenstockError


async def failing(here, **more):
    with pytest.raises(PenstockError) as raised:
        await here.ask(**more)
    return raised.value


class TestAnswering:
    async def test_a_value_that_fits_comes_back_with_what_it_cost(self, beside):
        async with beside(says(GOOD, usage=(100, 20), headers={"x-request-id": "req-9"})) as here:
            reply = await here.ask()
            (row,) = await here.calls()
        assert (reply.value, reply.model, reply.repairs) == (GOOD, "small", 0)
        assert (reply.usage.prompt_tokens, reply.usage.output_tokens, reply.usage.calls) == (100, 20, 1)
        assert reply.usage.cost_micro_usd == 27  # 100 at 0.15 and 20 at 0.6
        assert (row["outcome"], row["cost_micro_usd"], row["request_id"]) == ("ok", 27, "req-9")
        assert (row["subject_type"], row["subject_id"], row["merchant_id"]) == ("task", "7", "m1")
        assert (row["purpose"], row["prompt_version"], row["is_estimated"]) == ("extract-json", "1", False)
        assert reply.trace[0]["outcome"] == "ok"
        assert reply.trace[0]["cost_micro_usd"] == 27

    async def test_a_schema_that_takes_too_much_to_check_is_told_and_the_answer_is_paid_for(self, beside):
        items = {"type": "array", "items": {f"x-{n}": n for n in range(3_000)}}
        schema = {"type": "object", "properties": {"list": items}, "required": ["list"]}
        async with beside(says({"list": [1] * 3_000}, usage=(100, 20))) as here:
            failure = await failing(here, schema=schema)
            (row,) = await here.calls()
        assert (failure.code.code, failure.details["path"]) == ("ETL_RULE_TOO_COSTLY", "/json_schema")
        assert (row["outcome"], row["cost_micro_usd"]) == ("ETL_RULE_TOO_COSTLY", 27)

    async def test_without_a_schema_the_text_comes_back(self, beside):
        async with beside(says("A summary.")) as here:
            assert (await here.ask(schema=None)).value == "A summary."
        assert here.model.formats_asked == ["text"]

    @pytest.mark.parametrize(
        "content",
        [
            '```json\n{"number": "A-1", "total": 12.5}\n```',
            'Here you are:\n```\n{"number": "A-1", "total": 12.5}\n```\nGood luck.',
            '<think>{"number": 0}</think>\n{"number": "A-1", "total": 12.5}',
            '\n\n \ufeff{"number": "A-1", "total": 12.5}\n',
            '{"number": "A-1", "total": 12.5, "note": null}',
        ],
    )
    async def test_wrapping_is_taken_off(self, beside, content):
        async with beside(says(content)) as here:
            assert (await here.ask()).value == GOOD
        assert len(here.model.asked) == 1

    async def test_blank_lines_that_keep_the_connection_alive_are_no_answer(self, beside):
        async with beside(keeps_alive(GOOD, lines=20, pause=0.01)) as here:
            assert (await here.ask()).value == GOOD

    async def test_thoughts_beside_the_content_are_not_read(self, beside):
        async with beside(says(GOOD, reasoning_content='{"number": "WRONG"}')) as here:
            assert (await here.ask()).value == GOOD

    async def test_a_right_body_under_a_wrong_content_type_is_read(self, beside):
        async with beside(sends(http(200, completion(GOOD), content_type="text/plain"))) as here:
            assert (await here.ask()).value == GOOD

    async def test_absent_usage_is_estimated_and_marked(self, beside):
        async with beside(says(GOOD, usage=None)) as here:
            reply = await here.ask()
            (row,) = await here.calls()
            budgets = await here.budgets()
        assert reply.usage.is_estimated
        assert row["is_estimated"]
        assert row["prompt_tokens"] > 100
        assert 5 < row["output_tokens"] < 60
        assert budgets["llm:daily"] == (row["cost_micro_usd"], 0)

    @pytest.mark.parametrize("usage", [(-1, 5), (0, 0), (10**12, 1)])
    async def test_usage_that_cannot_be_true_counts_as_absent(self, beside, usage):
        async with beside(says(GOOD, usage=usage)) as here:
            assert (await here.ask()).usage.is_estimated


class TestFailingByName:
    @pytest.mark.parametrize(
        ("says_what", "code", "requests"),
        [
            (says(None, refusal="I cannot help with that."), "LLM_REFUSED", 1),
            (says("", finish_reason="content_filter"), "LLM_REFUSED", 1),
            (says('{"number": "A-1", "to', finish_reason="length"), "LLM_TRUNCATED", 1),
            (says(""), "LLM_EMPTY", 2),
            (says(None), "LLM_EMPTY", 2),
            (says("  \n "), "LLM_EMPTY", 2),
            (says("I think the total is 12.50."), "LLM_OUTPUT_INVALID", 2),
            (says('{"number": "A-1", "total": NaN}'), "LLM_OUTPUT_INVALID", 2),
            (says("[" * 100_000), "LLM_OUTPUT_INVALID", 2),
            (says({"number": 1}), "LLM_OUTPUT_INVALID", 2),
            (refused(400, "too long", "context_length_exceeded"), "LLM_CONTEXT_TOO_LONG", 1),
            (refused_flat(400, "This model's maximum context length is 4096 tokens."), "LLM_CONTEXT_TOO_LONG", 1),
            (refused(413), "LLM_CONTEXT_TOO_LONG", 1),
            (refused(400, "filtered", "content_filter"), "LLM_REFUSED", 1),
            (refused(400, "bad"), "LLM_REQUEST_REFUSED", 1),
            (refused(422, "bad"), "LLM_REQUEST_REFUSED", 1),
            (refused(404, "no such model"), "LLM_REQUEST_REFUSED", 1),
            (refused_flat(400, "top_p must be in (0, 1]"), "LLM_REQUEST_REFUSED", 1),
            (sends(http(302, b"", location="http://127.0.0.1:1/")), "LLM_REQUEST_REFUSED", 1),
        ],
    )
    async def test_each_has_its_code_and_its_row(self, beside, says_what, code, requests):
        async with beside(says_what) as here:
            failure = await failing(here)
            rows = await here.calls()
        assert failure.code.code == code
        assert [row["outcome"] for row in rows] == [code] * requests
        assert len(here.model.asked) == requests

    async def test_an_empty_answer_is_asked_for_once_more(self, beside):
        async with beside(says(""), says(GOOD)) as here:
            reply = await here.ask()
        assert (reply.value, reply.repairs, reply.usage.calls) == (GOOD, 0, 2)

    async def test_a_gigantic_answer_is_left_unread(self, beside):
        async with beside(says("x" * 3_000_000), max_answer="1MB") as here:
            failure = await failing(here)
            (row,) = await here.calls()
        assert (failure.code.code, failure.details["reason"]) == ("LLM_OUTPUT_INVALID", "TOO_LARGE")
        assert row["is_estimated"]
        assert row["cost_micro_usd"] > 0

    async def test_an_endless_answer_too(self, beside):
        async with beside(endless(), max_answer="1MB") as here:
            assert (await failing(here)).details["reason"] == "TOO_LARGE"

    async def test_a_schema_that_is_none_is_refused_before_anything_is_sent(self, beside):
        async with beside(says(GOOD)) as here:
            failure = await failing(here, schema={"type": "no such type"})
        assert (failure.code.code, failure.details["reason"]) == ("LLM_REQUEST_REFUSED", "SCHEMA_INVALID")
        assert here.model.asked == []

    async def test_a_schema_elsewhere_is_not_fetched(self, beside):
        async with beside(says(GOOD)) as here:
            schema = {"type": "object", "properties": {"number": {"$ref": f"{here.model.base_url}/schema"}}}
            failure = await failing(here, schema=schema)
        assert failure.details["reason"] == "SCHEMA_INVALID"
        assert len(here.model.asked) == 1

    async def test_nothing_set_up_is_said_before_anything_is_sent(self, beside):
        async with beside(says(GOOD), model="", prices="") as here:
            assert (await failing(here)).code.code == "LLM_NOT_CONFIGURED"


class TestRepairing:
    async def test_the_errors_are_shown_once_with_their_places(self, beside):
        async with beside(says({"number": 5, "total": "x"}), says(GOOD)) as here:
            reply = await here.ask()
            rows = await here.calls()
        assert (reply.value, reply.repairs, reply.usage.calls) == (GOOD, 1, 2)
        assert [row["outcome"] for row in rows] == ["LLM_OUTPUT_INVALID", "ok"]
        *_, answered, told = here.model.asked[1].body["messages"]
        assert answered["role"] == "assistant"
        assert "/number" in told["content"]
        assert "/total" in told["content"]

    async def test_what_is_still_wrong_is_told_by_place(self, beside):
        async with beside(says({"number": "A-1", "total": "x"})) as here:
            failure = await failing(here)
        (error,) = failure.details["errors"]
        assert error["path"] == "/total"
        assert "number" in error["message"]

    async def test_a_repair_that_is_cut_off_says_so(self, beside):
        async with beside(says("no"), says('{"nu', finish_reason="length")) as here:
            assert (await failing(here)).code.code == "LLM_TRUNCATED"


class TestTheLadder:
    async def test_the_schema_is_sent_in_its_strict_form_and_the_way_back_is_found(self, beside):
        async with beside(says({"number": "A-1", "total": 12.5, "note": None})) as here:
            assert (await here.ask()).value == GOOD
        (asked,) = here.model.asked
        form = asked.body["response_format"]["json_schema"]
        assert form["strict"] is True
        assert form["schema"]["required"] == ["number", "total", "note"]
        assert form["schema"]["properties"]["note"]["type"] == ["string", "null"]

    async def test_a_schema_that_strict_cannot_say_is_sent_as_it_is(self, beside):
        schema = {"type": "object", "additionalProperties": {"type": "number"}}
        async with beside(says({"a": 1})) as here:
            assert (await here.ask(schema=schema)).value == {"a": 1}
        form = here.model.asked[0].body["response_format"]["json_schema"]
        assert (form["strict"], form["schema"]) == (False, schema)

    async def test_an_endpoint_without_schemas_is_asked_for_json_from_then_on(self, beside):
        async with beside(says(GOOD), standin={"formats": {"text", "json_object"}}) as here:
            await here.ask()
            await here.ask()
            rows = await here.calls()
        assert here.model.formats_asked == ["json_schema", "json_object", "json_object"]
        assert "additionalProperties" not in here.model.asked[1].system
        assert '"required":["number","total"]' in here.model.asked[1].system
        assert (rows[0]["outcome"], rows[0]["cost_micro_usd"]) == ("LLM_REQUEST_REFUSED", 0)

    async def test_an_endpoint_that_knows_no_formats_is_still_asked(self, beside):
        async with beside(says(GOOD), standin={"formats": {"text"}}) as here:
            assert (await here.ask()).value == GOOD
        assert here.model.formats_asked == ["json_schema", "json_object", "text"]

    async def test_one_schema_that_is_refused_does_not_spoil_the_others(self, beside):
        refusal = refused(400, "Invalid schema for response_format 'x'", "invalid_json_schema")
        async with beside(refusal, says({"a": 1}), says(GOOD)) as here:
            await here.ask(schema={"type": "object", "properties": {"a": {"type": "integer"}}})
            await here.ask()
        assert here.model.formats_asked == ["json_schema", "json_object", "json_schema"]

    async def test_what_did_not_help_is_not_learned(self, beside):
        refusal = refused(400, "the schema of your account is broken")
        async with beside(refusal, refusal, refusal, says(GOOD)) as here:
            assert (await failing(here)).code.code == "LLM_REQUEST_REFUSED"
            await here.ask()
        assert here.model.formats_asked == ["json_schema", "json_object", "text", "json_schema"]

    async def test_the_other_name_of_the_longest_output_is_learned(self, beside):
        async with beside(says(GOOD), standin={"output_name": "max_completion_tokens"}) as here:
            await here.ask()
            await here.ask()
        assert ["max_tokens" in asked.body for asked in here.model.asked] == [True, False, False]
        assert here.model.asked[2].body["max_completion_tokens"] == 100

    async def test_a_model_that_wants_its_own_temperature_gets_none(self, beside):
        refusal = refused(400, "Unsupported value: 'temperature' does not support 0.0 with this model.")
        async with beside(refusal, says(GOOD)) as here:
            await here.ask()
        assert ["temperature" in asked.body for asked in here.model.asked] == [True, False]

    @pytest.mark.parametrize("answer", [{"value": [1, 2]}, [1, 2]])
    async def test_a_list_travels_inside_of_an_object(self, beside, answer):
        async with beside(says(answer)) as here:
            assert (await here.ask(schema={"type": "array", "items": {"type": "integer"}})).value == [1, 2]
        assert here.model.asked[0].body["response_format"]["json_schema"]["strict"] is True

    async def test_a_schema_that_refers_to_itself_is_only_shown(self, beside):
        schema = {"type": "array", "items": {"$ref": "#"}}
        async with beside(says([[], [[]]])) as here:
            assert (await here.ask(schema=schema)).value == [[], [[]]]
        assert here.model.formats_asked == ["text"]

    async def test_the_schema_of_the_caller_decides_whatever_was_sent(self, beside):
        schema = {**SCHEMA, "properties": {**SCHEMA["properties"], "total": {"type": "number", "maximum": 5}}}
        async with beside(says(GOOD)) as here:
            failure = await failing(here, schema=schema)
        assert failure.details["errors"][0]["path"] == "/total"
