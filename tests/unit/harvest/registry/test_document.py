"""Source files as people write them, and as they get them wrong."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from tests.support.sources import WORKS, documents, works

from penstock.harvest.registry.document import SourceDocument, fingerprint, read_source, try_source
from penstock.harvest.registry.rows import document_of, rows_of
from penstock.kernel.errors import Language, PenstockError

LEAST = "source: a\nname: A\nendpoints:\n  e: {}\n"


def problems(text: str | bytes):
    document, found = try_source(text if isinstance(text, bytes) else text.encode(), "a.yaml")
    assert (document is None) == bool(found)
    return found


def told(text: str | bytes) -> set[tuple[str, str, int]]:
    return {(each.key, each.rule, each.line) for each in problems(text)}


def endpoint(body: str) -> str:
    return f"source: a\nname: A\nendpoints:\n  e:\n    {body}\n"


class TestReading:
    def test_a_file_that_says_a_bit_of_everything_is_read(self):
        document = works().canonical()
        endpoint = document["endpoints"]["list"]
        assert endpoint["pagination"]["pageSize"] == 1000
        assert endpoint["window"] == {
            "supportsUpdatedSince": True,
            "safetyLag": "PT30M",
            "earliest": "2020-01-01T00:00:00Z",
        }
        assert endpoint["http"]["queryTemplate"]["rows"] == "100"  # a number where text is wanted
        assert document["schedules"][0] == {"endpoint": "list", "operation": "HARVEST", "every": "PT10M", "params": {}}

    def test_only_what_is_said_is_kept(self):
        document = read_source(LEAST.encode(), "a.yaml").canonical()
        assert document["endpoints"] == {"e": {"role": "SEARCH"}}
        assert document["defaults"] == {}

    def test_a_null_that_is_said_is_kept(self):
        assert works().canonical()["endpoints"]["list"]["response"]["totalPath"] is None

    def test_a_null_in_a_template_is_kept_too_since_it_takes_away_what_a_weaker_level_says(self):
        text = endpoint("http: {queryTemplate: {mailto: null}}")
        assert read_source(text.encode(), "a.yaml").canonical()["endpoints"]["e"]["http"] == {
            "queryTemplate": {"mailto": None}
        }

    def test_every_value_knows_its_line(self):
        origins = works().origins
        line = WORKS.splitlines().index("  rateLimit: {qps: 3}") + 1
        assert origins["defaults.rateLimit.qps"] == f"sources/works.yaml:{line}"
        assert origins["schedules.1.cron"].endswith(f":{len(WORKS.splitlines())}")

    def test_order_comments_and_the_way_to_write_a_duration_mean_nothing(self):
        one = read_source((LEAST + "description: x\n").encode(), "a.yaml")
        other = read_source(
            b"# hello\ndescription: 'x'\nname: A\nendpoints: {e: {role: SEARCH}}\nsource: a\n", "b.yaml"
        )
        assert one.canonical() == other.canonical()
        assert fingerprint(one.canonical()) == fingerprint(other.canonical())
        assert works(("safetyLag: 30m", "safetyLag: PT1800S")).canonical() == works().canonical()

    def test_words_that_yaml_takes_for_something_else_stay_text(self):
        text = endpoint("params: {a: no, b: 1:30, c: 2024-01-01, d: 007, e: 1.10, f: 12, g: 1.5}")
        params = read_source(text.encode(), "a.yaml").canonical()["endpoints"]["e"]["params"]
        assert params == {"a": "no", "b": "1:30", "c": "2024-01-01", "d": "007", "e": "1.10", "f": "12", "g": "1.5"}

    def test_an_alias_may_be_used(self):
        text = LEAST + "defaults:\n  http: {queryTemplate: &q {a: b}}\n  count: {queryTemplate: *q}\n"
        assert read_source(text.encode(), "a.yaml").canonical()["defaults"]["count"] == {"queryTemplate": {"a": "b"}}

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(document=documents())
    def test_split_over_the_tables_and_put_together_again_it_is_the_same(self, document: SourceDocument):
        canonical = document.canonical()
        source = {
            "provenance_code": canonical["source"],
            **{k: canonical[k] for k in ("name", "description", "defaults")},
        }
        assert document_of(source, rows_of(canonical)) == canonical

    @settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
    @given(document=documents())
    def test_the_canonical_form_of_a_canonical_form_is_itself(self, document: SourceDocument):
        written = json.dumps(document.canonical(), ensure_ascii=False).encode()
        assert read_source(written, "a.yaml").canonical() == document.canonical()


class TestFilesThatCannotBeRead:
    @pytest.mark.parametrize(
        ("content", "rule", "line"),
        [
            (b"", "yaml.mapping", 1),
            (b"- a\n- b\n", "yaml.mapping", 1),
            (b"just words\n", "yaml.mapping", 1),
            (b"a: b\nname: \xff\n", "file.encoding", 2),
            (b"a" * 1_000_001, "file.size", 1),
            (b"a: b\n\tc: d\n", "yaml.tab", 2),
            (b"a: [1, 2\nb: c\n", "yaml.syntax", 2),
            (b"a: *nothing\n", "yaml.syntax", 1),
            (b"a: b\n---\nc: d\n", "yaml.syntax", 2),
            (b"a: \x07\n", "yaml.syntax", 1),
            (b"a: " + b"[" * 5000, "yaml.size", 1),
            (b"a: [" + b"1," * 400_000 + b"1]", "yaml.size", 1),
        ],
    )
    def test_each_gets_its_sentence(self, content: bytes, rule: str, line: int):
        (problem,) = problems(content)
        assert (problem.rule, problem.line) == (rule, line)

    @pytest.mark.parametrize(
        ("text", "key", "rule", "line"),
        [
            (LEAST + "name: B\n", "name", "yaml.duplicate", 5),
            (LEAST + "defaults:\n  <<: {a: b}\n", "defaults.<<", "yaml.merge", 6),
            (LEAST + "description: !!python/name:os.system x\n", "description", "yaml.tag", 5),
            (LEAST + "? [a, b]\n: c\n", "?", "yaml.key", 5),
            (LEAST + 'description: "a\\0b"\n', "description", "yaml.character", 5),
            (LEAST + 'description: "\\ud800"\n', "description", "yaml.character", 5),
            (LEAST + "defaults: &a\n  http: *a\n", "defaults.http.http", "yaml.depth", 6),
        ],
    )
    def test_and_so_does_each_thing_in_it(self, text: str, key: str, rule: str, line: int):
        assert (key, rule, line) in told(text)

    def test_aliases_that_multiply_are_stopped(self):
        lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
        assert "yaml.size" in {each.rule for each in problems("\n".join(lines))}


class TestKeysAndValues:
    def test_all_problems_are_told_at_once_each_at_its_place(self):
        text = endpoint("pagination: {pageSize: 0, type: token}") + "titel: x\n"
        assert told(text) == {
            ("endpoints.e.pagination.pageSize", "value.invalid", 5),
            ("endpoints.e.pagination.type", "value.invalid", 5),
            ("titel", "key.unknown", 6),
        }

    @pytest.mark.parametrize(
        ("body", "en"),
        [
            ("paginaton: {}", "there is no key paginaton here; did you mean pagination?"),
            ("http: {base_url: x}", "there is no key base_url here; did you mean baseUrl?"),
            ("http: {pageSize: 3}", "pageSize belongs under pagination"),
            ("auth: {oauth2: {token_url: x}}", "there is no key token_url here; did you mean tokenUrl?"),
            ("mapping: {outputFields: [{name: a, expr: b, requird: true}]}",
             "there is no key requird here; did you mean required?"),
            ("count: {queryTemplat: {}}", "there is no key queryTemplat here; did you mean queryTemplate?"),
            ("count: {x: {}}", "there is no key x here; the keys are queryTemplate"),
            ("role: search", "must be one of SEARCH, DETAIL, METRICS; did you mean SEARCH?"),
            ("http: {method: PUT}", "must be one of GET, POST"),
            ("http: {connectTimeout: soon}", "is no duration: write PT10M or 10m, P1D or 1d"),
            ("http: {connectTimeout: 99999999999999d}", "is longer than a hundred years"),
            ("window: {safetyLag: 36526d}", "is longer than a hundred years"),
            ("window: {earliest: '9999-12-31T23:59:59-14:00'}",
             "is not valid: Value error, this moment cannot be written in UTC"),
            ("http: {queryTemplate: {a: true}}", "must be text; put words such as true in quotes"),
            ("http: {queryTemplate: [a]}", "must be a group of `key: value` lines"),
            ("http: 3", "must be a group of `key: value` lines"),
            ("pagination: {pageSize: many}", "must be a whole number"),
            ("pagination: {pageSize: null}", "must be a whole number"),
            ("rateLimit: {qps: .inf}", "must be a number"),
            ("rateLimit: {qps: inf}", "must be a finite number"),
            ("rateLimit: {pace: 1.5}", "must be at most 1.0"),
            ("window: {earliest: yesterday}", "must be a time such as 2024-01-31T00:00:00Z"),
            ("expr: {allowedFunctions: now}", "must be a list"),
            ("mapping: {outputFields: [{name: a}]}", "this key is missing and must be there"),
        ],
    )  # fmt: skip
    def test_each_wrong_one_gets_a_sentence_that_helps(self, body: str, en: str):
        (problem,) = problems(endpoint(body))
        assert problem.message_en == en
        assert problem.message_zh
        assert problem.line == 5

    def test_part_of_a_nested_group_may_be_said(self):
        text = endpoint("auth: {oauth2: {scope: read}}")
        assert read_source(text.encode(), "a.yaml").canonical()["endpoints"]["e"]["auth"] == {
            "oauth2": {"scope": "read"}
        }

    @pytest.mark.parametrize("name", ["Works", "1a", "a b", "", "a" * 65, "ä"])
    def test_a_code_is_short_lower_case_and_begins_with_a_letter(self, name: str):
        assert {each.key for each in problems(LEAST.replace("source: a", f"source: '{name}'"))} == {"source"}
        text = LEAST.replace("  e: {}", f"  '{name}': {{}}")
        assert "endpoints" in {each.key.split(".")[0] for each in problems(text)}

    def test_what_must_be_there_is_missed(self):
        assert {(each.key, each.rule) for each in problems("description: x\n")} == {
            ("source", "key.missing"),
            ("name", "key.missing"),
            ("endpoints", "key.missing"),
        }
        assert {each.key for each in problems("source: a\nname: A\nendpoints: {}\n")} == {"endpoints"}

    def test_the_error_carries_all_problems_in_both_languages(self):
        with pytest.raises(PenstockError) as refused:
            read_source(b"nam: x\n", "a.yaml")
        assert refused.value.code.code == "SOURCE_FILE_INVALID"
        (first,) = [each for each in refused.value.details["problems"] if each["key"] == "nam"]
        assert first == {
            "file": "a.yaml", "line": 1, "column": 1, "key": "nam", "rule": "key.unknown",
            "message_zh": "没有 nam 这个键；是否想写 name？",
            "message_en": "there is no key nam here; did you mean name?",
        }  # fmt: skip

    def test_a_problem_reads_as_editors_expect(self):
        (problem,) = problems(endpoint("rol: x"))
        assert problem.in_language(Language.EN) == (
            "a.yaml:5:5 endpoints.e.rol: there is no key rol here; did you mean role? (key.unknown)"
        )


class TestWhatMustFitTogether:
    @pytest.mark.parametrize(
        ("more", "key", "rule"),
        [
            ("credentials: {c: {type: BEARER, secret: {}}}", "credentials.c.secret", "credential.place"),
            ("credentials: {c: {type: BEARER, secret: {env: A, file: b}}}", "credentials.c.secret", "credential.place"),
            ("credentials: {c: {type: OAUTH2, secret: {env: A}}}", "credentials.c", "credential.client"),
            ("schedules: [{operation: HARVEST}]", "schedules.0", "schedule.when"),
            ("schedules: [{operation: HARVEST, every: 1m, cron: '* * * * *'}]", "schedules.0", "schedule.when"),
            ("schedules: [{operation: HARVEST, cron: '* * *'}]", "schedules.0.cron", "schedule.cron"),
            ("schedules: [{operation: HARVEST, cron: '0 0 31 2 *'}]", "schedules.0.cron", "schedule.cron"),
            ("schedules: [{operation: HARVEST, cron: '@daily'}]", "schedules.0.cron", "schedule.cron"),
            ("schedules: [{operation: UPDATE, every: 1m, params: {candidates: X}}]", "schedules.0.params.candidates",
             "schedule.params"),
            ("schedules: [{operation: UPDATE, every: 1m, params: {limit: '0'}}]", "schedules.0.params.limit",
             "schedule.params"),
            ("schedules: [{operation: BACKFILL, every: 1m, params: {since: soon}}]", "schedules.0.params.since",
             "schedule.params"),
            ("schedules: [{operation: HARVEST, every: 0s}]", "schedules.0.every", "schedule.every"),
            ("schedules: [{operation: HARVEST, every: 1m, endpoint: x}]", "schedules.0.endpoint", "schedule.endpoint"),
            ("schedules: [{operation: UPDATE, every: 1m}, {operation: UPDATE, every: 2m, endpoint: e}]", "schedules.1",
             "schedule.twice"),
        ],
    )  # fmt: skip
    def test_each_rule_of_the_file(self, more: str, key: str, rule: str):
        assert told(LEAST + more + "\n") == {(key, rule, 5)}

    @pytest.mark.parametrize(
        ("body", "key", "rule"),
        [
            ("linkedEndpoint: x", "endpoints.e.linkedEndpoint", "endpoint.linked"),
            ("linkedEndpoint: e", "endpoints.e.linkedEndpoint", "endpoint.linked"),
            ("mapping: {outputFields: [{name: a, expr: b}, {name: a, expr: c}]}", "endpoints.e.mapping.outputFields.1",
             "mapping.twice"),
        ],
    )  # fmt: skip
    def test_each_rule_of_an_endpoint(self, body: str, key: str, rule: str):
        assert told(endpoint(body)) == {(key, rule, 5)}

    def test_one_endpoint_is_the_default(self):
        text = "source: a\nname: A\nendpoints:\n  e: {default: true}\n  f: {default: true}\n"
        assert told(text) == {("endpoints.f.default", "endpoint.default", 5)}

    def test_a_schedule_of_several_endpoints_says_which(self):
        text = "source: a\nname: A\nendpoints:\n  e: {}\n  f: {}\nschedules: [{operation: HARVEST, every: 1m}]\n"
        assert told(text) == {("schedules.0", "schedule.endpoint", 6)}
        marked = text.replace("f: {}", "f: {default: true}")
        assert read_source(marked.encode(), "a.yaml").canonical()["schedules"][0]["endpoint"] == "f"


class TestSecrets:
    @pytest.mark.parametrize(
        ("text", "key"),
        [
            (LEAST + "credentials: {c: {type: BEARER, secret: hush-hush}}\n", "credentials.c.secret"),
            (LEAST + "credentials: {c: {type: BEARER, secret: 12345678}}\n", "credentials.c.secret"),
            (endpoint("http: {queryTemplate: {api_key: hush-hush}}"), "endpoints.e.http.queryTemplate.api_key"),
            (endpoint("http: {headersTemplate: {Authorization: Bearer hush-hush}}"),
             "endpoints.e.http.headersTemplate.Authorization"),
            (endpoint("defaults: {http: {bodyTemplate: {client-secret: hush-hush}}}"),
             "endpoints.e.defaults.http.bodyTemplate.client-secret"),
            (endpoint("params: {apiKey: hush-hush}"), "endpoints.e.params.apiKey"),
            (endpoint("mapping: {requestParams: [{name: X-Api-Key, location: HEADER, default: hush-hush}]}"),
             "endpoints.e.mapping.requestParams.0.default"),
            (endpoint("http: {baseUrl: 'https://me:hush-hush@a.example'}"), "endpoints.e.http.baseUrl"),
            (endpoint("http: {proxy: 'me:hush-hush@proxy.example:3128'}"), "endpoints.e.http.proxy"),
            (endpoint("pagination: {initialUrl: 'https://a.example/?apikey=hush-hush'}"),
             "endpoints.e.pagination.initialUrl"),
        ],
    )  # fmt: skip
    def test_none_is_taken_and_none_is_repeated(self, text: str, key: str):
        (problem,) = problems(text)
        assert (problem.key, problem.rule.split(".")[0]) == (key, "secret")
        assert "credentials" in problem.message_en or "secret: {env: NAME}" in problem.message_en
        assert "hush" not in str(problem.as_dict())

    def test_a_place_where_one_will_be_put_is_no_secret(self):
        assert problems(endpoint("http: {queryTemplate: {api_key: '${param.key}', token: '*'}}")) == []
