"""Strategies of the mode llm: what is asked, what is asked again, what comes out."""

import asyncio
from datetime import timedelta

import pytest
from tests.support.page_drafts import PageDraft
from tests.support.rule_places import HERE
from tests.support.scripted_model import SUBJECT, DictMemo, ReadingModel, Text, Told

from penstock.extraction.ports import Rule
from penstock.extraction.processors.llm import LlmProcessor
from penstock.extraction.settings import EtlSettings
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

SCHEMA = {
    "type": "object",
    "properties": {
        "number": {"type": "string"},
        "lines": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"code": {"type": "string"}, "name": {"type": "string"}, "qty": {"type": "integer"}},
                "required": ["code", "qty"],
            },
        },
    },
    "required": ["number", "lines"],
    "additionalProperties": False,
}
SETTINGS = EtlSettings(postprocess_chunk_threshold_chars=2000, postprocess_chunk_size_chars=1000)


def rule(**changes) -> Rule:
    return Rule(**{"rule_id": 2, "version": 1, "name": "r", "postprocess_mode": "llm", "json_schema": SCHEMA} | changes)


def invoice(rows: int) -> str:
    lines = [f"| C{n} | name of {n} | {n % 7} |" for n in range(rows)]
    return "\n".join(["# Invoice INV-42", "", "| Code | Name | Qty |", "| --- | --- | --- |", *lines])


def expected(rows: int) -> dict:
    lines = [{"code": f"C{n}", "name": f"name of {n}", "qty": n % 7} for n in range(rows)]
    return {"number": "INV-42", "lines": lines}


async def made(model, text, told=None, memo=None, settings=SETTINGS, **changes):
    processor = LlmProcessor(model, HERE, settings, lambda _subject: memo or DictMemo())
    return await processor.process(rule(**changes), Text(text), SUBJECT, told or Told())


async def refused(code, awaitable) -> PenstockError:
    with pytest.raises(PenstockError) as failure:
        await awaitable
    assert failure.value.code.code == code
    return failure.value


class SlowModel(ReadingModel):
    """Answers when it has been told of often enough."""

    def __init__(self, told: Told) -> None:
        super().__init__()
        self._told = told

    async def ask(self, ask):
        async with asyncio.timeout(20):
            while len(self._told.steps) < 4:
                await asyncio.sleep(0.001)
        return await super().ask(ask)


class TestWaiting:
    async def test_a_long_call_gives_signs_of_life_until_it_is_answered(self):
        told, before = Told(), asyncio.all_tasks()
        settings = SETTINGS.model_copy(update={"task_timeout": timedelta(seconds=0.02)})
        await made(SlowModel(told), invoice(10), told, settings=settings)
        assert {*told.steps[:-1]} == {(0, 1)}
        assert told.steps[-1] == (1, 1)
        assert asyncio.all_tasks() <= before


class TestChoosing:
    async def test_a_short_document_is_asked_about_once_by_the_schema_itself(self):
        model, told = ReadingModel(), Told()
        extract = await made(model, invoice(10), told)
        assert extract.data == expected(10)
        assert [ask.schema for ask in model.asked] == [SCHEMA]
        assert extract.metadata["strategy"] == "direct-json"
        assert told.steps == [(0, 1), (1, 1)]

    async def test_a_long_one_is_worked_on_in_chunks_by_size(self):
        extract = await made(ReadingModel(), invoice(200))
        assert extract.data == expected(200)
        assert (extract.metadata["strategy"], extract.metadata["chunks"]) == (
            "chunked-extract",
            extract.metadata["asked"],
        )
        assert extract.metadata["chunks"] > 4

    async def test_the_large_strategy_is_a_setting(self):
        settings = SETTINGS.model_copy(update={"postprocess_large_strategy": "chunked-summarize"})
        extract = await made(ReadingModel(), invoice(200), settings=settings)
        assert (extract.data, extract.metadata["strategy"]) == (expected(200), "chunked-summarize")

    @pytest.mark.parametrize("strategy", ["direct-json", "chunked-summarize", "chunked-extract"])
    async def test_the_rule_may_say_which(self, strategy):
        extract = await made(ReadingModel(), invoice(60), postprocess_strategy=strategy)
        assert (extract.data, extract.metadata["strategy"]) == (expected(60), strategy)

    async def test_what_is_too_long_for_the_model_is_worked_on_in_chunks(self):
        extract = await made(ReadingModel(limit=1500), invoice(80), postprocess_strategy="direct-json")
        assert extract.data == expected(80)
        assert (extract.metadata["strategy"], extract.metadata["because"]) == (
            "chunked-extract",
            "LLM_CONTEXT_TOO_LONG",
        )

    @pytest.mark.parametrize("strategy", ["chunked-extract", "chunked-summarize"])
    async def test_a_chunk_that_is_too_long_is_worked_on_in_smaller_ones(self, strategy):
        settings = SETTINGS.model_copy(update={"postprocess_chunk_size_chars": 4000})
        model = ReadingModel(limit=2200)
        extract = await made(model, invoice(50), settings=settings, postprocess_strategy=strategy)
        assert extract.data == expected(50)

    async def test_a_model_that_can_read_nothing_is_given_up_on(self):
        await refused("LLM_CONTEXT_TOO_LONG", made(ReadingModel(limit=10), invoice(80)))

    async def test_a_document_of_too_many_chunks_is_refused_before_anything_is_asked(self):
        model = ReadingModel()
        settings = SETTINGS.model_copy(update={"postprocess_max_chunks": 3})
        await refused("ETL_DOCUMENT_TOO_LONG", made(model, invoice(500), settings=settings))
        assert model.asked == []


class TestWhatIsAsked:
    async def test_the_rules_own_wishes_are_instructions_and_the_document_is_data(self):
        model = ReadingModel()
        await made(model, invoice(3), system_prompt="Use {curly} $words.")
        prompt = model.asked[0].prompt
        assert "Use {curly} $words." in prompt.instructions
        assert prompt.data == invoice(3)
        assert "INV-42" not in prompt.instructions

    async def test_it_is_asked_on_behalf_of_the_task(self):
        model = ReadingModel()
        await made(model, invoice(3))
        ask = model.asked[0]
        assert (ask.subject_type, ask.subject_id, ask.merchant_id) == ("etl_task", "7", "m1")

    async def test_a_chunk_need_not_say_everything(self):
        model = ReadingModel()
        await made(model, invoice(100))
        schema = model.asked[0].schema
        assert "required" not in schema
        assert "required" not in schema["properties"]["lines"]["items"]
        assert schema["properties"]["number"]["type"] == ["string", "null"]

    async def test_no_more_are_asked_at_once_than_allowed(self):
        model = ReadingModel()
        processor = LlmProcessor(model, HERE, SETTINGS, at_once=3)
        await processor.process(rule(), Text(invoice(300)), SUBJECT, Told())
        assert model.most_at_once == 3

    async def test_progress_counts_the_chunks(self):
        told = Told()
        extract = await made(ReadingModel(), invoice(100), told)
        total = extract.metadata["chunks"]
        assert told.steps == [(done, total) for done in range(total + 1)]

    async def test_a_document_without_text_costs_nothing(self):
        model = ReadingModel()
        failure = await refused("ETL_RESULT_INVALID", made(model, " \n"))
        assert "no text" in failure.details["errors"][0]["message"]
        assert (await made(model, "", json_schema={"type": "object"})).data == {}
        assert model.asked == []


class TestWhatComesOut:
    async def test_what_it_took_is_told(self):
        metadata = (await made(ReadingModel(), invoice(100))).metadata
        asked = metadata["asked"]
        assert metadata["models"] == {"reader-1": asked}
        assert metadata["usage"] == {
            "prompt_tokens": 100 * asked, "output_tokens": 10 * asked, "cost_micro_usd": 5 * asked, "calls": asked,
            "is_estimated": False,
        }  # fmt: skip

    async def test_what_no_chunk_says_is_missing_by_its_path(self):
        failure = await refused("LLM_OUTPUT_INVALID", made(ReadingModel(), invoice(100).replace("INV-42", "")))
        assert failure.details["errors"] == [{"path": "/number", "message": "is missing", "message_zh": "缺失"}]

    async def test_nulls_that_do_not_fit_are_left_out(self):
        text = invoice(100).replace("name of 7 ", " ")
        extract = await made(ReadingModel(), text)
        assert extract.data["lines"][7] == {"code": "C7", "qty": 0}

    async def test_chunks_that_disagree_are_told(self):
        def answer(ask):
            return ReadingModel.read(ask) | {"number": f"INV-{'4' if 'C0 ' in ask.prompt.data else '5'}"}

        extract = await made(ReadingModel(answer=answer), invoice(40), postprocess_strategy="chunked-extract")
        assert extract.metadata["conflicts"][0]["path"] == "/number"

    async def test_each_value_has_its_place(self):
        draft = PageDraft(3).line("Invoice INV-42").table([("Code", "Name", "Qty"), ("C0", "name of 0", "0")])
        processor = LlmProcessor(ReadingModel(), HERE, SETTINGS)
        extract = await processor.process(rule(), Text(invoice(1), [draft.page]), SUBJECT, Told())
        assert set(extract.places) == {"/number", "/lines/0/code", "/lines/0/name", "/lines/0/qty"}
        assert extract.places["/lines/0/qty"][0].page == 3


class TestAskingOnce:
    async def test_after_a_failure_only_what_is_not_known_yet_is_asked(self):
        memo, failing = DictMemo(), ReadingModel(answer=_fails_at(" C60 "))
        await refused("LLM_UNAVAILABLE", made(failing, invoice(200), memo=memo))
        known = len(memo.kept)
        again = ReadingModel()
        extract = await made(again, invoice(200), memo=memo)
        assert extract.data == expected(200)
        assert known > 0
        assert (extract.metadata["remembered"], len(again.asked)) == (known, extract.metadata["chunks"] - known)

    async def test_after_a_failure_nothing_new_is_begun(self):
        model = ReadingModel(answer=_fails_at(" C0 "))
        await refused("LLM_UNAVAILABLE", made(model, invoice(400)))
        assert len(model.asked) <= 4

    async def test_a_finished_document_is_not_asked_about_again(self):
        memo, model = DictMemo(), ReadingModel()
        for strategy in ("direct-json", "chunked-extract", "chunked-summarize"):
            first = await made(model, invoice(80), memo=memo, postprocess_strategy=strategy)
            asked = len(model.asked)
            second = await made(model, invoice(80), memo=memo, postprocess_strategy=strategy)
            assert (second.data, len(model.asked)) == (first.data, asked)
            assert second.metadata["usage"]["cost_micro_usd"] == 0

    async def test_another_rule_or_another_text_is_another_question(self):
        memo, model = DictMemo(), ReadingModel()
        await made(model, invoice(3), memo=memo)
        await made(model, invoice(4), memo=memo)
        await made(model, invoice(3), memo=memo, system_prompt="else")
        await made(model, invoice(3), memo=memo, json_schema=SCHEMA | {"title": "else"})
        assert len(model.asked) == 4

    async def test_a_remembered_answer_that_does_not_fit_is_asked_for_again(self):
        memo, model = DictMemo(), ReadingModel()
        await made(model, invoice(3), memo=memo)
        memo.kept = {key: {"value": {"number": 3}, "model": "x"} for key in memo.kept}
        assert (await made(model, invoice(3), memo=memo)).data == expected(3)
        memo.kept = dict.fromkeys(memo.kept, "rubbish")
        assert (await made(model, invoice(3), memo=memo)).data == expected(3)

    async def test_answers_that_do_not_make_a_result_are_asked_for_again(self):
        memo, text = DictMemo(), invoice(100)
        await refused("LLM_OUTPUT_INVALID", made(ReadingModel(answer=_without_number), text, memo=memo))
        assert (await made(ReadingModel(), text, memo=memo)).data == expected(100)

    async def test_a_memory_that_is_away_changes_nothing_but_the_price(self):
        class Away:
            async def get(self, key):
                raise PenstockError(error_codes.STORE_UNAVAILABLE)

            async def put(self, key, value):
                raise PenstockError(error_codes.STORE_UNAVAILABLE)

        assert (await made(ReadingModel(), invoice(80), memo=Away())).data == expected(80)

    async def test_cancelled_it_stops_asking(self):
        model = ReadingModel(answer=None)
        task = asyncio.create_task(made(model, invoice(2000), settings=SETTINGS))
        while len(model.asked) < 2:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        asked = len(model.asked)
        await asyncio.sleep(0)
        assert (len(model.asked), model.at_once) == (asked, 0)


def _without_number(ask):
    return ReadingModel.read(ask) | {"number": None}


def _fails_at(word):
    def answer(ask):
        if word in ask.prompt.data:
            raise PenstockError(error_codes.LLM_UNAVAILABLE)
        return ReadingModel.read(ask)

    return answer
