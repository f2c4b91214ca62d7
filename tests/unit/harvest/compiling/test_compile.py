"""From a source, an endpoint and an operation to a snapshot."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from penstock.harvest.compiling.canonical import fingerprint
from penstock.harvest.compiling.compile import check_source, compile_spec
from penstock.harvest.compiling.explain import explain
from penstock.harvest.spec import Operation, Spec
from penstock.kernel.errors import PenstockError

ROOT = Path(__file__).parents[4]
HARVEST, BACKFILL, UPDATE = Operation.HARVEST, Operation.BACKFILL, Operation.UPDATE
TWO_PHASE = {"batching": {"twoPhase": {"enabled": True}}, "linkedEndpoint": "details"}


def refusal(*arguments):
    with pytest.raises(PenstockError) as failure:
        compile_spec(*arguments)
    return failure.value


class TestSnapshots:
    def test_a_snapshot_says_what_was_compiled_and_from_which_version(self, demo):
        snapshot = compile_spec(demo(), "works", BACKFILL).snapshot
        named = ("provenanceCode", "endpointName", "role", "operation", "registryVersion", "detail")
        assert [snapshot[name] for name in named] == ["demo", "works", "SEARCH", "BACKFILL", 1, None]

    def test_durations_are_written_in_one_way_whatever_the_file_says(self, demo):
        hashes = {
            compile_spec(demo(works={"window": {"safetyLag": said}}), "works", HARVEST).spec_fingerprint
            for said in ("90m", "PT90M", "PT1H30M", "5400s")
        }
        assert len(hashes) == 1

    def test_a_snapshot_that_is_read_again_is_the_same_spec(self, demo):
        compiled = compile_spec(demo(TWO_PHASE, {}), "works", HARVEST)
        assert Spec.read(compiled.snapshot) == compiled.spec
        assert fingerprint(Spec.read(compiled.snapshot).snapshot()) == compiled.spec_fingerprint

    def test_an_endpoint_that_is_not_there_is_refused_with_those_that_are(self, demo):
        failure = refusal(demo(details={}), "wroks", HARVEST)
        assert (failure.code.code, failure.details["endpoints"]) == ("ENDPOINT_UNKNOWN", ["details", "works"])

    def test_what_this_run_says_is_the_strongest(self, demo):
        compiled = compile_spec(
            demo(works={"pagination": {"pageSize": 50}}), "works", HARVEST, {"pagination": {"pageSize": 7}}
        )
        assert compiled.spec.pagination.page_size == 7
        assert compiled.origins["pagination.pageSize"].level == "run"

    def test_another_process_with_another_hash_seed_gets_the_same_hashes(self, demo):
        here = compile_spec(demo(TWO_PHASE, {}), "works", HARVEST)
        program = (
            "import json, sys; from tests.support.source_files import WrittenSource;"
            "from penstock.harvest.compiling.compile import compile_spec; from penstock.harvest.spec import Operation;"
            "found = compile_spec(WrittenSource(json.load(sys.stdin)), 'works', Operation.HARVEST);"
            "print(found.spec_fingerprint, found.expr_proto_hash)"
        )
        for seed in ("1", "77"):
            there = subprocess.run(
                [sys.executable, "-c", program],
                input=json.dumps(demo(TWO_PHASE, {}).document).encode(),
                env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
                capture_output=True,
                check=True,
                timeout=60,
            )
            assert there.stdout.decode().split() == [here.spec_fingerprint, here.expr_proto_hash]


class TestTwoPhases:
    def test_the_linked_endpoint_is_compiled_with_it(self, demo):
        compiled = compile_spec(demo(TWO_PHASE, {"rateLimit": {"qps": 7}}), "works", HARVEST)
        assert compiled.spec.detail_endpoint == "details"
        assert compiled.spec.detail.rate_limit.qps == 7
        assert compiled.spec.rate_limit.qps == 1
        assert compiled.origins["detail.rateLimit.qps"].origin == "demo.yaml endpoints.details"

    def test_a_list_of_ids_needs_no_times(self, demo):
        source = demo({**TWO_PHASE, "response": {"updatedAtPath": None}}, {})
        assert compile_spec(source, "works", HARVEST).spec.response.updated_at_path is None

    def test_what_a_detail_endpoint_leaves_unsaid_of_lag_and_granularity_the_list_says_for_it(self, demo):
        window = {"safetyLag": "12h", "granularity": "1d", "align": "day", "minWindow": "1d"}
        works = {**TWO_PHASE, "window": {"supportsUpdatedSince": True, "watermarkKey": "day", **window}}
        compiled = compile_spec(demo(works, {}), "works", HARVEST)
        lent = compiled.spec.detail.window
        assert (lent.safety_lag, lent.granularity) == (timedelta(hours=12), timedelta(days=1))
        assert compiled.origins["detail.window.safetyLag"].origin == "demo.yaml endpoints.works"
        own = compile_spec(demo(works, {"window": {"safetyLag": "1m"}}), "works", HARVEST).spec.detail.window
        assert (own.safety_lag, own.granularity) == (timedelta(minutes=1), timedelta(days=1))

    def test_a_link_alone_does_not_make_two_phases(self, demo):
        assert compile_spec(demo({"linkedEndpoint": "details"}, {}), "works", HARVEST).spec.detail is None

    def test_this_run_can_speak_of_the_details_too(self, demo):
        compiled = compile_spec(demo(TWO_PHASE, {}), "works", HARVEST, {"detail": {"rateLimit": {"qps": 0.5}}})
        assert (compiled.spec.detail.rate_limit.qps, compiled.spec.rate_limit.qps) == (0.5, 1)

    @pytest.mark.parametrize(
        ("works", "details", "size"),
        [
            ({}, {"idBatchSize": 50}, 50),
            ({"idBatchSize": 50}, {}, 50),
            ({"idBatchSize": 50}, {"idBatchSize": 60}, 60),
            ({}, {}, 200),
        ],
    )
    def test_ids_are_asked_for_in_one_size_whichever_endpoint_says_it(self, demo, works, details, size):
        source = demo({"linkedEndpoint": "details", "batching": {"twoPhase": {"enabled": True}, **works}},
                      {"batching": details})  # fmt: skip
        spec = compile_spec(source, "works", HARVEST).spec
        assert (spec.batching.id_batch_size, spec.detail.batching.id_batch_size) == (size, size)

    @pytest.mark.parametrize("broken", [{"batching": 5}, {"batching": None}, {"http": []}])
    def test_a_detail_endpoint_that_cannot_be_read_is_refused(self, demo, broken):
        problems = refusal(demo(TWO_PHASE, broken), "works", HARVEST).details["problems"]
        assert {problem["key"].split(".")[0] for problem in problems} == {"detail"}

    @pytest.mark.parametrize("said", [5, [], {"rateLimit": {"qps": 1}}])
    def test_a_run_cannot_speak_of_details_that_are_not_there(self, demo, said):
        (problem,) = refusal(demo(), "works", HARVEST, {"detail": said}).details["problems"]
        assert (problem["key"], problem["origin"]) == ("detail", "this run")


class TestFetchingById:
    def test_a_detail_endpoint_is_used_when_there_is_one(self, demo):
        spec = compile_spec(demo({"linkedEndpoint": "details"}, {}), "works", UPDATE).spec
        assert spec.detail_endpoint == "details"

    def test_an_endpoint_that_takes_ids_itself_needs_no_other(self, demo):
        source = demo({"http": {"queryTemplate": {"ids": "${size(ids) > 0 ? join(ids, '|') : null}"}}})
        assert compile_spec(source, "works", UPDATE).spec.detail is None

    def test_without_either_it_is_impossible(self, demo):
        assert refusal(demo(), "works", UPDATE).code.code == "HARVEST_UPDATE_IMPOSSIBLE"

    def test_a_source_without_windows_and_pages_can_still_be_updated(self, demo):
        source = demo(
            {"linkedEndpoint": "details", "pagination": {"type": None}, "window": {"supportsUpdatedSince": False}}, {}
        )
        assert refusal(source, "works", HARVEST).code.code == "SPEC_INVALID"
        assert compile_spec(source, "works", UPDATE)

    def test_a_detail_endpoint_can_be_named_itself(self, demo):
        assert compile_spec(demo(details={}), "details", UPDATE).spec.role == "DETAIL"


class TestWholeSources:
    def test_a_source_that_can_be_harvested_has_no_problems(self, demo):
        assert check_source(demo(TWO_PHASE, {})) == []

    def test_the_problems_of_all_endpoints_come_together_and_each_once(self, demo):
        source = demo({"window": {"watermarkKey": None}}, {"response": {"idPath": None}}, {"rateLimit": {"cost": 5}})
        found = [(problem["origin"], problem["key"]) for problem in check_source(source)]
        assert found == [
            ("demo.yaml endpoints.works", "window.watermarkKey"),
            ("demo.yaml defaults", "rateLimit.cost"),
            ("demo.yaml endpoints.details", "response.idPath"),
        ]


class TestDegradations:
    @pytest.mark.parametrize(
        ("works", "warning"),
        [
            ({"response": {"totalPath": "$.total"}}, "noCount"),
            ({"count": {"queryTemplate": {"rows": "0"}}}, "noCount"),
            ({"pagination": {"hasMorePath": "$.more"}}, "hasNextByPageSize"),
            ({"pagination": {"orderBy": "updated"}}, "orderNotStated"),
        ],
    )
    def test_what_is_missing_is_warned_of_until_it_is_there(self, demo, works, warning):
        assert warning in compile_spec(demo(), "works", HARVEST).warnings
        assert warning not in compile_spec(demo(works), "works", HARVEST).warnings

    def test_a_source_that_cannot_filter_is_filtered_by_us(self, demo):
        window = {"supportsUpdatedSince": False, "clientFilter": True, "monotonic": True}
        source = demo({"window": window, "pagination": {"orderBy": "id"}})
        assert "clientFilter" in compile_spec(source, "works", HARVEST).warnings
        assert "clientFilter" not in compile_spec(demo(), "works", HARVEST).warnings

    def test_a_token_needs_no_guess_about_the_last_page(self, demo):
        source = demo({
            "pagination": {"type": "TOKEN", "nextTokenPath": "$.next"},
            "http": {"queryTemplate": {"cursor": "${page.token}"}},
        })  # fmt: skip
        assert "hasNextByPageSize" not in compile_spec(source, "works", HARVEST).warnings


class TestPrototypes:
    def test_a_backfill_asks_as_a_harvest_does(self, demo):
        one, other = (compile_spec(demo(), "works", operation) for operation in (HARVEST, BACKFILL))
        assert one.expr_proto_hash == other.expr_proto_hash
        assert one.spec_fingerprint != other.spec_fingerprint

    @pytest.mark.parametrize(
        "details",
        [{"http": {"pathTemplate": "/other"}}, {"response": {"idPath": "$.key"}}, {"params": {"full": "yes"}}],
    )
    def test_how_details_are_asked_for_counts(self, demo, details):
        one, other = (compile_spec(demo(TWO_PHASE, said), "works", HARVEST) for said in ({}, details))
        assert one.expr_proto_hash != other.expr_proto_hash

    def test_how_fast_details_are_asked_for_does_not_count(self, demo):
        fast = {"rateLimit": {"qps": 9}, "http": {"readTimeout": "60s"}, "retry": {"maxAttempts": 2}}
        one, other = (compile_spec(demo(TWO_PHASE, said), "works", HARVEST) for said in ({}, fast))
        assert one.expr_proto_hash == other.expr_proto_hash
        assert one.spec_fingerprint != other.spec_fingerprint


class TestExplaining:
    def test_each_row_says_who_said_it_and_what_was_overridden(self, demo):
        source = demo({"window": {"safetyLag": "1h"}}, defaults={"window": {"safetyLag": "20m"}})
        (row,) = explain(compile_spec(source, "works", HARVEST), "window.safetyLag")
        assert (row.value, row.level, row.origin) == ("PT1H", "section", "demo.yaml endpoints.works")
        assert [(origin.level, origin.value) for origin in row.overridden] == [("source", "20m"), ("platform", "PT10M")]

    def test_a_key_that_was_taken_away_is_shown_as_such(self, demo):
        source = demo(
            {"http": {"queryTemplate": {"mailto": None}}}, defaults={"http": {"queryTemplate": {"mailto": "a@b.org"}}}
        )
        (row,) = explain(compile_spec(source, "works", HARVEST), "http.queryTemplate.mailto")
        assert (row.is_removed, row.origin, row.overridden[0].value) == (True, "demo.yaml endpoints.works", "a@b.org")

    def test_rows_come_by_key_and_cover_the_details_too(self, demo):
        keys = [row.key for row in explain(compile_spec(demo(TWO_PHASE, {}), "works", HARVEST))]
        assert keys == sorted(keys)
        assert {"http.baseUrl", "detail.http.baseUrl"} <= set(keys)
