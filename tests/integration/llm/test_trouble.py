"""Endpoints in trouble: what is sent again, what is given up, who is asked next."""

import asyncio
import gzip

import pytest
from tests.standins.openai_like import completion, cuts, hangs, http, keeps_alive, refused, resets, says, sends
from tests.support.asking import GOOD, adapter, asking, question, settings

from penstock.kernel.breaker import Breaker
from penstock.kernel.errors import PenstockError
from penstock.kernel.health import ComponentStatus
from penstock.kernel.redis import connect
from penstock.llm import circuit_check

HTML = sends(http(200, b"<html>We will be back soon.</html>", content_type="text/html"))


async def failing(here, **more):
    with pytest.raises(PenstockError) as raised:
        await here.ask(**more)
    return raised.value


class TestSendingAgain:
    @pytest.mark.parametrize(
        "trouble",
        [
            refused(408),
            refused(409),
            refused(429, "slow down", "rate_limit_exceeded"),
            refused(500),
            refused(503),
            refused(529),
            resets(),
            cuts(GOOD),
            HTML,
            sends(http(200, {"choices": []})),
            sends(http(200, {"error": {"message": "upstream is away", "code": 502}})),
            refused(400, "try again", x_should_retry="true"),
        ],
    )
    async def test_what_may_pass_is_sent_again(self, beside, trouble):
        async with beside(trouble, trouble, says(GOOD)) as here:
            reply = await here.ask()
            rows = await here.calls()
        assert reply.value == GOOD
        assert [row["retries"] for row in rows] == [0, 1, 2]
        assert rows[-1]["outcome"] == "ok"
        assert len(here.model.asked) == 3

    @pytest.mark.parametrize(
        ("trouble", "code"),
        [
            (refused(500), "LLM_UNAVAILABLE"),
            (refused(429), "LLM_RATE_LIMITED"),
            (resets(), "LLM_UNAVAILABLE"),
            (HTML, "LLM_UNAVAILABLE"),
        ],
    )
    async def test_what_does_not_pass_is_given_up(self, beside, trouble, code):
        async with beside(trouble) as here:
            failure = await failing(here)
        assert (failure.code.code, failure.details["attempts"]) == (code, 3)
        assert failure.code.retryable
        assert len(here.model.asked) == 3

    async def test_an_endpoint_that_says_not_to_is_not_asked_again(self, beside):
        async with beside(refused(500, x_should_retry="false")) as here:
            assert (await failing(here)).code.code == "LLM_UNAVAILABLE"
        assert len(here.model.asked) == 1

    async def test_silence_ends_after_the_time_out(self, beside):
        async with beside(hangs(), timeout="0.2", attempts=2) as here:
            failure = await failing(here)
            rows = await here.calls()
            budgets = await here.budgets()
        assert (failure.code.code, failure.details["reason"]) == ("LLM_UNAVAILABLE", "TOO_SLOW")
        assert all(row["is_estimated"] and row["cost_micro_usd"] > 0 for row in rows)
        assert budgets["llm:daily"] == (sum(row["cost_micro_usd"] for row in rows), 0)

    async def test_signs_of_life_without_an_answer_end_too(self, beside):
        async with beside(keeps_alive(GOOD, lines=10_000, pause=0.01), timeout="0.3", attempts=1) as here:
            assert (await failing(here)).details["reason"] == "TOO_SLOW"

    async def test_what_was_packed_without_being_asked_for_is_not_unpacked(self, beside):
        packed = gzip.compress(str(completion(GOOD)).encode())
        async with beside(sends(http(200, packed, content_encoding="gzip")), attempts=1) as here:
            assert (await failing(here)).details["reason"] == "UNKNOWN_ENCODING"

    async def test_nobody_there_costs_nothing(self, beside):
        async with beside(says(GOOD), base_url="http://127.0.0.1:1") as here:
            failure = await failing(here)
            budgets = await here.budgets()
        assert failure.details["reason"] == "CONNECT_FAILED"
        assert budgets["llm:daily"] == (0, 0)

    async def test_without_redis_it_goes_on(self, database, own_redis, keys):
        client = connect(own_redis.url)
        own_redis.stop()
        async with asking(database, client, keys, refused(500), says(GOOD)) as here:
            assert (await here.ask()).value == GOOD
            assert (await here.budgets())["llm:daily"] == (27, 0)
        await client.aclose()


class TestRetryAfter:
    @pytest.mark.parametrize("header", [{"retry_after_ms": "300"}, {"retry_after": "0.3"}])
    async def test_it_is_waited_for(self, beside, header):
        async with beside(refused(429, "slow down", **header), says(GOOD)) as here:
            reply = await here.ask()
            waited = await here._rows("select extract(epoch from max(created_at) - min(created_at)) as s from llm_call")
        assert reply.usage.calls == 2
        assert waited[0]["s"] >= 0.28

    async def test_longer_than_patience_it_is_handed_to_the_caller(self, beside):
        async with beside(refused(429, "slow down", retry_after="90")) as here:
            failure = await failing(here)
            again = await failing(here)
        assert (failure.code.code, failure.details["retry_after"]) == ("LLM_RATE_LIMITED", 90)
        assert len(here.model.asked) == 1, "the gate keeps the silence for everybody"
        assert (again.code.code, again.details["reason"]) == ("LLM_RATE_LIMITED", "cooling_down")
        assert 80 < again.details["retry_after"] < 110


class TestLimits:
    async def test_requests_of_a_minute_are_held(self, beside):
        async with beside(says(GOOD), qpm=10, patience="0") as here:
            await here.ask()
            failure = await failing(here)
        assert failure.code.code == "LLM_RATE_LIMITED"
        assert failure.details["retry_after"] > 1
        assert len(here.model.asked) == 1

    async def test_tokens_of_a_minute_are_held(self, beside):
        async with beside(says(GOOD), tpm=1400, patience="0") as here:
            await here.ask()
            failure = await failing(here)
        assert failure.code.code == "LLM_RATE_LIMITED"
        assert len(here.model.asked) == 1

    async def test_more_than_a_minute_has_can_never_be_sent(self, beside):
        async with beside(says(GOOD), tpm=100) as here:
            failure = await failing(here)
        assert (failure.code.code, failure.details["limit"]) == ("LLM_CONTEXT_TOO_LONG", 100)

    async def test_an_endpoint_that_says_nothing_is_left_is_left_alone(self, beside):
        headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}
        async with beside(says(GOOD, headers=headers)) as here:
            await here.ask()
            failure = await failing(here)
        assert failure.code.code == "LLM_RATE_LIMITED"
        assert 300 < failure.details["retry_after"] < 450


class TestMoneyAndKeys:
    @pytest.mark.parametrize(
        "trouble",
        [
            refused(402, "Insufficient Balance"),
            refused(429, "You exceeded your current quota", "insufficient_quota"),
            refused(400, "Access denied", "Arrearage"),
        ],
    )
    async def test_no_credit_is_not_too_fast(self, beside, trouble):
        async with beside(trouble) as here:
            failure = await failing(here)
        assert (failure.code.code, failure.code.retryable) == ("LLM_QUOTA_EXHAUSTED", False)
        assert len(here.model.asked) == 1

    @pytest.mark.parametrize("status", [401, 403])
    async def test_a_key_that_is_refused_opens_the_circuit(self, beside, status):
        async with beside(refused(status, "no")) as here:
            first, second = await failing(here), await failing(here)
        assert (first.code.code, second.code.code) == ("LLM_AUTH_FAILED", "LLM_CIRCUIT_OPEN")
        assert second.details["retry_after"] > 20
        assert len(here.model.asked) == 1

    @pytest.mark.parametrize("wrong", [{"api_key": "sk-mistyped"}, {"base_url": "http://127.0.0.1:9/v1"}])
    async def test_somebodys_wrong_key_or_address_holds_up_nobody_else(
        self, beside, database, redis_client, keys, wrong
    ):
        async with beside(says(GOOD)) as here:
            mistaken = adapter(
                settings(here.model, breaker_failures=1, attempts=1, **wrong), database, redis_client, keys
            )
            with pytest.raises(PenstockError):
                await mistaken.ask(question())
            with pytest.raises(PenstockError, match="LLM_CIRCUIT_OPEN"):
                await mistaken.ask(question())
            await mistaken.close()
            assert (await here.ask()).value == GOOD


class TestTheCircuit:
    async def test_faults_open_it_for_every_process(self, beside, database, redis_client, keys):
        async with beside(refused(500), breaker_failures=3) as here:
            other = adapter(settings(here.model, breaker_failures=3), database, redis_client, keys)
            assert (await failing(here)).code.code == "LLM_UNAVAILABLE"
            with pytest.raises(PenstockError) as refusal:
                await other.ask(question())
            await other.close()
            check = circuit_check(Breaker(redis_client, keys), settings(here.model))
            assert (await check()).status is ComponentStatus.CIRCUIT_OPEN
            check = circuit_check(Breaker(redis_client, keys), settings(here.model, model="small,large"))
            assert (await check()).status is ComponentStatus.DEGRADED
        assert refusal.value.code.code == "LLM_CIRCUIT_OPEN"
        assert len(here.model.asked) == 3

    @pytest.mark.parametrize(
        "content",
        [
            says("no"),
            says(None, refusal="no"),
            says(""),
            says("{", finish_reason="length"),
            refused(400, "bad"),
            refused(402),
        ],
    )
    async def test_bad_answers_do_not(self, beside, content):
        async with beside(content, breaker_failures=1) as here:
            for _ in range(3):
                assert (await failing(here)).code.code != "LLM_CIRCUIT_OPEN"

    async def test_nothing_is_set_aside_while_it_is_open(self, beside):
        async with beside(refused(500), breaker_failures=1, attempts=1) as here:
            await failing(here)
            await failing(here)
            assert len(await here.calls()) == 1
            assert (await here.budgets())["llm:daily"] == (0, 0)

    async def test_it_closes_when_the_model_answers_again(self, beside):
        async with beside(refused(500), says(GOOD), breaker_failures=1, breaker_pause="0.05", attempts=6) as here:
            for _ in range(20):
                try:
                    reply = await here.ask()
                    break
                except PenstockError as paused:
                    assert paused.code.code == "LLM_CIRCUIT_OPEN"
                    await asyncio.sleep(0.05)
        assert reply.value == GOOD


class TestPreference:
    @pytest.mark.parametrize(
        "trouble",
        [
            refused(500),
            refused(402),
            refused(429, "slow down", retry_after="90"),
            refused(404, "no such model", "model_not_found"),
        ],
    )
    async def test_the_next_model_is_asked(self, beside, trouble):
        scripts = {"scripts": {"small": [trouble], "large": [says(GOOD)]}}
        async with beside(model="small, large", standin=scripts) as here:
            reply = await here.ask()
        assert (reply.value, reply.model) == (GOOD, "large")
        assert {entry["model"] for entry in reply.trace} == {"small", "large"}

    async def test_one_that_is_paused_is_not_even_tried(self, beside):
        scripts = {"scripts": {"small": [refused(500)], "large": [says(GOOD)]}}
        async with beside(model="small,large", standin=scripts, breaker_failures=3) as here:
            await here.ask()
            reply = await here.ask()
        assert reply.model == "large"
        assert here.model.models_asked == ["small"] * 3 + ["large"] * 2

    async def test_an_answer_that_is_not_liked_is_no_reason(self, beside):
        scripts = {"scripts": {"small": [says("no")], "large": [says(GOOD)]}}
        async with beside(model="small,large", standin=scripts) as here:
            assert (await failing(here)).code.code == "LLM_OUTPUT_INVALID"
        assert set(here.model.models_asked) == {"small"}

    async def test_of_several_failures_the_one_that_may_pass_is_told(self, beside):
        scripts = {"scripts": {"small": [refused(402)], "large": [refused(500)]}}
        async with beside(model="small,large", standin=scripts) as here:
            failure = await failing(here)
        assert failure.code.code == "LLM_UNAVAILABLE"
        assert failure.details["models"] == ["small: LLM_QUOTA_EXHAUSTED", "large: LLM_UNAVAILABLE"]
