"""What goes wrong upstream ends as one of five codes, or is mended without anybody noticing."""

import pytest
from tests.integration.extraction.mineru.conftest import provider_at
from tests.standins.mineru import Mineru
from tests.support.answering import Answering, Said
from tests.support.notebooks import opened

from penstock.kernel import error_codes as codes
from penstock.kernel.errors import PenstockError


async def refusal_of(service, document, notebook, **settings) -> PenstockError:
    async with provider_at(service.base_url, **settings) as provider:
        with pytest.raises(PenstockError) as refusal:
            await provider.read(document, notebook)
    return refusal.value


CLASSES = {
    "gateway": codes.OCR_AUTH_FAILED,
    "gateway at 200": codes.OCR_AUTH_FAILED,
    "A0211": codes.OCR_AUTH_FAILED,
    -500: codes.OCR_REFUSED,
    -10002: codes.OCR_REFUSED,
    -10001: codes.OCR_UNAVAILABLE,
    -60001: codes.OCR_UNAVAILABLE,
    -60007: codes.OCR_UNAVAILABLE,
    -60008: codes.OCR_UNAVAILABLE,
    -60009: codes.OCR_UNAVAILABLE,
    -60002: codes.OCR_REFUSED,
    -60003: codes.OCR_REFUSED,
    -60004: codes.OCR_REFUSED,
    -60005: codes.OCR_REFUSED,
    -60012: codes.OCR_REFUSED,
    -60013: codes.OCR_REFUSED,
    -60014: codes.OCR_REFUSED,
    -60015: codes.OCR_REFUSED,
    -60016: codes.OCR_REFUSED,
    -60018: codes.OCR_QUOTA_EXHAUSTED,
    -60019: codes.OCR_QUOTA_EXHAUSTED,
    -61234: codes.OCR_REFUSED,
}


class TestHostedCodes:
    async def test_each_has_its_class_when_submitting(self, hosted, document, notebook):
        async with provider_at(hosted.base_url) as provider:
            for fault, code in CLASSES.items():
                hosted.behave(faults={"submit": [fault]})
                with pytest.raises(PenstockError) as refusal:
                    await provider.read(document, notebook)
                assert refusal.value.code is code, fault
                expected = "A0202" if str(fault).startswith("gateway") else fault
                assert refusal.value.details["upstream_code"] == expected
        assert hosted.calls["upload"] == 0

    async def test_each_has_its_class_in_a_row(self, hosted, document, notebook):
        async with provider_at(hosted.base_url) as provider:
            for fault, code in CLASSES.items():
                if isinstance(fault, str) or code is codes.OCR_UNAVAILABLE:
                    continue
                hosted.behave(states=["pending", "failed"], err_code=fault)
                with pytest.raises(PenstockError) as refusal:
                    await provider.read(document, notebook)
                assert (refusal.value.code, refusal.value.details["upstream_code"]) == (code, fault)
        assert hosted.calls["submit"] == 1

    async def test_a_queue_that_is_full_for_a_moment_is_waited_for(self, hosted, document, notebook):
        hosted.behave(faults={"look": [-60009, 502, "cut", None, 503]})
        async with provider_at(hosted.base_url) as provider:
            assert (await provider.read(document, notebook)).page_count == 2
        assert hosted.calls["submit"] == 1

    async def test_a_parse_that_fails_is_tried_once_more(self, hosted, document, notebook):
        hosted.behave(states=["failed"], err_code=-60010)
        refusal = await refusal_of(hosted, document, notebook)
        assert refusal.code is codes.OCR_REFUSED
        assert refusal.details["upstream_code"] == -60010
        assert refusal.details["upstream_message"] == "something went wrong"
        assert hosted.calls["submit"] == 2

    async def test_a_file_that_did_not_arrive_is_sent_again_to_the_same_link(self, hosted, document, notebook):
        hosted.behave(faults={"look": [-60011]})
        async with provider_at(hosted.base_url) as provider:
            await provider.read(document, notebook)
        assert (hosted.calls["submit"], hosted.calls["upload"]) == (1, 2)

    async def test_an_upload_link_that_has_expired_is_asked_for_anew(self, hosted, document, notebook):
        hosted.behave(faults={"upload": [403]})
        async with provider_at(hosted.base_url) as provider:
            await provider.read(document, notebook)
        assert (hosted.calls["submit"], hosted.calls["upload"]) == (2, 2)

    async def test_a_result_link_that_has_died_is_asked_for_anew(self, hosted, document, notebook):
        hosted.behave(faults={"result": [403, 404]})
        async with provider_at(hosted.base_url) as provider:
            assert (await provider.read(document, notebook)).page_count == 2
        assert hosted.calls["submit"] == 1

    async def test_a_result_link_that_stays_dead_is_worth_another_attempt(self, hosted, document, notebook):
        hosted.behave(faults={"result": [403] * 9})
        refusal = await refusal_of(hosted, document, notebook)
        assert (refusal.code, refusal.details["reason"]) == (codes.OCR_UNAVAILABLE, "LINK_DEAD")

    @pytest.mark.parametrize("order", ["converting pending running done", "done", "running waiting-file pending done"])
    async def test_states_may_come_in_any_order(self, hosted, document, notebook, order):
        hosted.behave(states=order.split())
        async with provider_at(hosted.base_url) as provider:
            assert (await provider.read(document, notebook)).page_count == 2
        assert (hosted.calls["submit"], hosted.calls["upload"]) == (1, 1)


class TestEveryServer:
    async def test_5xx_429_and_cuts_are_worth_another_attempt(self, service, document, notebook):
        async with provider_at(service.base_url) as provider:
            for fault in (500, 503, 429, "cut"):
                service.behave(faults={"submit": [fault]})
                with pytest.raises(PenstockError) as refusal:
                    await provider.read(document, notebook)
                assert refusal.value.code is codes.OCR_UNAVAILABLE, fault
            await provider.read(document, notebook)

    async def test_one_that_is_slow_is_left_in_time(self, service, document, notebook):
        service.behave(delay=5)
        limits = {"read_timeout_seconds": "0.1", "parse_timeout_seconds": "0.1"}
        refusal = await refusal_of(service, document, notebook, **limits)
        assert refusal.code is codes.OCR_UNAVAILABLE

    async def test_one_that_is_not_there_is_worth_another_attempt(self, service, document, notebook):
        service.url = "http://127.0.0.1:9"
        refusal = await refusal_of(service, document, notebook)
        assert (refusal.code, refusal.details["reason"]) == (codes.OCR_UNAVAILABLE, "CONNECT_FAILED")

    async def test_a_lost_task_is_submitted_again(self, document, notebook):
        for family in ("v3", "v4"):
            async with Mineru(family).running() as service, provider_at(service.base_url) as provider:
                service.behave(faults={"look": [None, 404], "result": [404]})
                await provider.read(document, notebook)
                assert service.calls["submit"] == 3

    async def test_a_task_that_is_lost_again_and_again_ends_the_attempt(self, document, notebook):
        async with Mineru("v3").running() as service:
            service.behave(faults={"look": [404] * 9})
            refusal = await refusal_of(service, document, notebook)
        assert (refusal.code, refusal.details["reason"]) == (codes.OCR_UNAVAILABLE, "TASK_LOST")
        assert service.calls["submit"] == 3

    async def test_a_failed_task_is_tried_once_more_then_refused_with_the_reason(self, document, notebook, tmp_path):
        for family in ("v3", "v4"):
            async with Mineru(family).running() as service:
                service.behave(states=["failed"], err_code="parse_failed")
                refusal = await refusal_of(service, document, notebook)
            assert refusal.code is codes.OCR_REFUSED
            assert refusal.details["upstream_message"] == "something went wrong"
            assert service.calls["submit"] == 2

    async def test_a_4x_file_that_is_wrong_is_not_tried_again(self, document, notebook):
        async with Mineru("v4").running() as service:
            service.behave(states=["failed"], err_code="unsupported_file", err_type="invalid_request_error")
            refusal = await refusal_of(service, document, notebook)
        assert (refusal.code, refusal.details["upstream_code"]) == (codes.OCR_REFUSED, "unsupported_file")
        assert service.calls["submit"] == 1

    async def test_a_4x_task_that_was_cancelled_there_is_submitted_again(self, document, notebook):
        async with Mineru("v4").running() as service, provider_at(service.base_url) as provider:
            service.behave(states=["canceled"])
            with pytest.raises(PenstockError, match="TASK_LOST"):
                await provider.read(document, notebook)
        assert service.calls["submit"] == 3

    async def test_a_4x_partial_task_counts_by_its_only_file(self, document, notebook):
        async with Mineru("v4").running() as service, provider_at(service.base_url) as provider:
            service.behave(states=["running", "partial"])
            assert (await provider.read(document, notebook)).page_count == 2

    async def test_a_wrong_key_is_named(self, document, notebook):
        for family in ("hosted", "v4"):
            async with Mineru(family).running() as service:
                refusal = await refusal_of(service, document, notebook, token="wrong")
            assert refusal.code is codes.OCR_AUTH_FAILED
            assert not refusal.code.retryable

    async def test_what_can_never_work_is_not_tried_again(self, document, notebook):
        for family in ("v2", "v3", "v4"):
            async with Mineru(family).running() as service:
                service.behave(faults={"submit": [400]})
                refusal = await refusal_of(service, document, notebook)
            assert refusal.code is codes.OCR_REFUSED
            assert service.calls["submit"] == 1

    async def test_an_answer_that_is_not_mineru_is_said_to_be_none(self, queueing, document, notebook):
        queueing.behave(faults={"submit": ["garbage"]})
        refusal = await refusal_of(queueing, document, notebook)
        assert refusal.code is codes.OCR_ANSWER_INVALID

    async def test_a_state_nobody_knows_is_named(self, queueing, document, notebook):
        queueing.behave(states=["thinking"])
        refusal = await refusal_of(queueing, document, notebook)
        assert refusal.details["state"] == "thinking"


class TestProbing:
    async def test_tasks_of_a_server_that_was_upgraded_meanwhile_are_submitted_anew(self, document, notebook):
        async with Mineru("v3", token="").running() as service, provider_at(service.url) as provider:
            service.behave(states=["processing"])
            async with provider_at(service.url, poll_limit_seconds="0.02") as impatient:
                with pytest.raises(PenstockError, match="NOT_DONE_YET"):
                    await impatient.read(document, notebook)
            service.behave(states=[])
            service.restart("v4")
            assert provider.version == "unknown"
            reading = await provider.read(document, notebook)
            assert provider.version == "self-hosted-4 4.0.12"
        assert reading.metadata["family"] == "self-hosted-4"

    @pytest.mark.parametrize(("before", "after"), [("v3", "v4"), ("v4", "v3"), ("v3", "v2"), ("v4", "v2")])
    async def test_the_pinned_family_is_given_up_when_the_server_is_another(self, before, after, tmp_path, document):
        async with Mineru(before, token="").running() as service, provider_at(service.url) as provider:
            first = await provider.read(document, await opened(tmp_path / "1"))
            probes = service.calls["probe"]
            await provider.read(document, await opened(tmp_path / "2"))
            assert service.calls["probe"] == probes  # pinned
            service.restart(after)
            second = await provider.read(document, await opened(tmp_path / "3"))
        assert first.metadata["family"].endswith(before[1])
        assert second.metadata["family"].endswith(after[1])

    async def test_one_that_is_still_starting_is_worth_another_attempt(self, document, notebook):
        async with Mineru("v4").running() as service:
            service.behave(faults={"probe": [503]})
            refusal = await refusal_of(service, document, notebook)
        assert refusal.code is codes.OCR_UNAVAILABLE

    async def test_a_protocol_that_is_not_known_is_not_guessed_at(self, document, notebook):
        async with Mineru("v3").running() as service:
            service.behave(protocol=9)
            refusal = await refusal_of(service, document, notebook)
        assert (refusal.code, refusal.details["protocol_version"]) == (codes.OCR_ANSWER_INVALID, "9")

    @pytest.mark.parametrize("said", [Said(200, b"<html>"), Said(404, b"nothing here"), Said(302, b"")])
    async def test_some_other_web_server_is_not_taken_for_2x(self, document, notebook, said):
        with Answering(lambda _: said) as other:
            async with provider_at(other.address) as provider:
                with pytest.raises(PenstockError) as refusal:
                    await provider.read(document, notebook)
        assert (refusal.value.code, refusal.value.details["reason"]) == (codes.OCR_ANSWER_INVALID, "NOT_MINERU")
        assert "POST" not in {asked.method for asked in other.asked}
