"""Sources over HTTP: admins put them in force, whole or not at all, and never a way into our own network."""

import json

import pytest
import yaml
from tests.integration.api.harvest_source import ADDRESS, DOCUMENT, NAME
from tests.support.edge import bearer

from penstock.harvest.registry.apply import apply
from penstock.harvest.registry.document import read_source
from penstock.kernel.db import fetch_all, fetch_one

PATH = f"/api/v1/harvest/sources/{NAME}"
YAML = {**bearer("admin", seconds=7200), "Content-Type": "application/yaml"}
OPERATOR = bearer("operator", seconds=7200)


async def put(client, text=DOCUMENT, **params):
    return await client.put(PATH, content=text, headers=YAML, params=params)


async def count(database, table):
    async with database.transaction() as tx:
        return (await fetch_one(tx, f"select count(*) as n from {table}"))["n"]


def problems(answer):
    return {(each["rule"], each["key"]) for each in answer.json()["details"]["problems"]}


class TestApplying:
    async def test_a_dry_run_tells_the_changes_and_writes_nothing(self, client, database):
        answer = await put(client, dry_run=True)
        assert answer.status_code == 200
        told = answer.json()
        assert (told["version"], told["is_dry_run"]) == (0, True)
        assert {"path": "endpoints.works.http.baseUrl", "before": None, "after": ADDRESS} in told["changes"]
        assert await count(database, "reg_provenance") == 0
        assert (await client.get(PATH, headers=OPERATOR)).json()["code"] == "SOURCE_UNKNOWN"

    async def test_it_is_in_force_and_the_same_again_changes_nothing(self, client, database):
        assert (await put(client)).json()["version"] == 1
        again = (await put(client)).json()
        assert (again["version"], again["changes"]) == (1, [])
        changed = (await put(client, DOCUMENT.replace("pageSize: 10", "pageSize: 20"))).json()
        assert changed["version"] == 2
        assert changed["changes"] == [{"path": "endpoints.works.pagination.pageSize", "before": 10, "after": 20}]
        async with database.transaction() as tx:
            [_, last] = await fetch_all(tx, "select actor, subject from audit_log where action = 'apply_source'")
        assert last == {"actor": "alice", "subject": f"source:{NAME}"}

    async def test_json_means_the_same_tabs_and_escapes_included(self, client, database):
        await put(client)
        packed = json.dumps(yaml.safe_load(DOCUMENT), indent="\t")
        headers = {**bearer("admin"), "Content-Type": "application/json; charset=utf-8"}
        answer = await client.put(PATH, content=packed, headers=headers)
        assert (answer.status_code, answer.json()["changes"]) == (200, [])

    async def test_operators_may_look_but_not_apply(self, client, database):
        answer = await client.put(PATH, content=DOCUMENT, headers={**YAML, **OPERATOR})
        assert (answer.status_code, answer.json()["code"]) == (403, "ROLE_DENIED")
        assert (await client.get("/api/v1/harvest/sources", headers=OPERATOR)).json() == {"sources": []}
        assert (await client.get("/api/v1/harvest/sources", headers=bearer("uploader"))).status_code == 403


class TestRefusing:
    async def test_every_problem_of_a_document_is_named_with_its_line(self, client):
        wrong = DOCUMENT.replace("pageSize: 10", "pageSize: ten").replace("name: A shelf", "nam: A shelf")
        answer = await put(client, wrong)
        assert (answer.status_code, answer.json()["code"]) == (400, "SOURCE_FILE_INVALID")
        told = answer.json()["details"]["problems"]
        assert {"nam", "endpoints.works.pagination.pageSize"} <= {each["key"] for each in told}
        assert all(each["line"] > 0 and each["message_zh"] and each["message_en"] for each in told)

    async def test_every_clash_that_the_compiler_finds_is_named(self, client, database):
        wrong = DOCUMENT.replace("qps: 2, burst: 2", "qps: 2, burst: 2, providerQps: 1, minRate: 5")
        answer = await put(client, wrong)
        assert (answer.status_code, answer.json()["code"]) == (400, "SPEC_INVALID")
        assert {key for _, key in problems(answer)} == {"rateLimit.qps", "rateLimit.minRate"}
        assert await count(database, "reg_provenance") == 0

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", b"- a", b"a: &a [*a, *a]", b"\xff\xfe", b"source: \x00", b"source: \t", b"[" * 5000, b"!!python/x"],
        ids=lambda content: repr(content[:20]),
    )
    async def test_what_is_no_document_is_refused(self, client, content):
        answer = await put(client, content)
        assert (answer.status_code, answer.json()["code"]) == (400, "SOURCE_FILE_INVALID")

    async def test_another_source_than_the_address_says_is_refused(self, client):
        answer = await put(client, DOCUMENT.replace(f"source: {NAME}", "source: other"))
        assert (answer.status_code, problems_of_file(answer)) == (400, [("source.code", "source", 2)])

    async def test_other_kinds_of_content_and_long_ones_are_refused(self, client):
        as_xml = await client.put(PATH, content=DOCUMENT, headers={**YAML, "Content-Type": "text/xml"})
        assert (as_xml.status_code, as_xml.json()["code"]) == (415, "CONTENT_TYPE_INVALID")
        assert (await put(client, "#" * (1 << 21))).status_code == 413


def problems_of_file(answer):
    return [(each["rule"], each["key"], each["line"]) for each in answer.json()["details"]["problems"]]


class TestStayingOutside:
    """A source is no way to reach what only our own machines reach, nor to send their secrets away."""

    @pytest.mark.parametrize(
        "host", ["127.0.0.1", "localhost", "10.0.0.8", "169.254.169.254", "[::1]", "2130706433", "[::ffff:10.0.0.8]"]
    )
    async def test_an_address_inside_our_network_is_refused(self, client, host):
        for dry_run in (True, False):
            answer = await put(client, DOCUMENT.replace(ADDRESS, f"https://{host}/v1"), dry_run=dry_run)
            assert (answer.status_code, answer.json()["code"]) == (400, "SPEC_INVALID")
            assert problems(answer) == {("address", "endpoints.works.http.baseUrl")}

    async def test_proxies_token_servers_and_defaults_are_looked_at_too(self, client):
        inside = "https://192.168.1.1"
        wrong = DOCUMENT.replace(
            "endpoints:\n", f"defaults:\n  http: {{proxy: '{inside}'}}\n"
            f"  auth: {{oauth2: {{tokenUrl: '{inside}/token'}}}}\nendpoints:\n",
        )  # fmt: skip
        assert {("address", "defaults.http.proxy"), ("address", "defaults.auth.oauth2.tokenUrl")} <= problems(
            await put(client, wrong)
        )

    async def test_the_operator_may_allow_it(self, lenient, database):
        text = DOCUMENT.replace(ADDRESS, "https://127.0.0.1/v1")
        assert (await put(lenient, text)).status_code == 200

    @pytest.mark.parametrize("place", ["{env: PENSTOCK_JWT_SECRET}", "{file: /etc/passwd}"])
    async def test_no_variable_or_file_of_ours_becomes_a_credential(self, client, place):
        answer = await put(client, DOCUMENT.replace("{store: shelf}", place))
        assert (answer.status_code, problems(answer)) == (400, {("credential", "credentials.shelf.secret")})

    async def test_one_that_is_in_force_may_stay(self, client, database):
        text = DOCUMENT.replace("{store: shelf}", "{env: SHELF_KEY}")
        async with database.transaction() as tx:
            await apply(tx, read_source(text.encode(), NAME), "root")
        answer = await put(client, text.replace("pageSize: 10", "pageSize: 20"))
        assert (answer.status_code, answer.json()["version"]) == (200, 2)


class TestLooking:
    async def test_a_source_is_shown_with_its_parts(self, client, database):
        await put(client)
        shown = (await client.get(PATH, headers=OPERATOR)).json()
        assert (shown["version"], shown["updated_by"], shown["default_endpoint"]) == (1, "alice", "works")
        assert shown["document"]["credentials"] == {"shelf": {"type": "API_KEY", "secret": {"store": "shelf"}}}
        assert [(each["name"], each["role"]) for each in shown["endpoints"]] == [("works", "SEARCH")]
        [schedule] = shown["schedules"]
        assert (schedule["operation"], schedule["every_seconds"], schedule["last_run_at"]) == ("HARVEST", 3600, None)
        [listed] = (await client.get("/api/v1/harvest/sources", headers=OPERATOR)).json()["sources"]
        assert (listed["source"], listed["endpoints"]) == (NAME, ["works"])

    async def test_what_is_shown_can_be_applied_as_it_is(self, client, database):
        await put(client)
        shown = (await client.get(PATH, headers=OPERATOR)).json()["document"]
        answer = await client.put(PATH, json=shown, headers=bearer("admin"))
        assert (answer.status_code, answer.json()["changes"]) == (200, [])

    async def test_each_value_says_where_it_comes_from(self, client, database):
        await put(client)
        asked = {"prefix": "rateLimit.qps"}
        told = (await client.get(f"{PATH}/explain", params=asked, headers=OPERATOR)).json()
        [row] = told["rows"]
        assert (row["value"], row["level"], row["overridden"][0]["level"]) == (2.0, "section", "platform")
        assert row["origin"].startswith(f"{NAME}:")
        assert told["endpoint"] == "works"

    async def test_what_is_not_there_is_said(self, client, database):
        await put(client)
        for path, params, code in (
            ("/api/v1/harvest/sources/none", {}, "SOURCE_UNKNOWN"),
            (f"{PATH}/explain", {"endpoint": "none"}, "ENDPOINT_UNKNOWN"),
        ):
            answer = await client.get(path, params=params, headers=OPERATOR)
            assert (answer.status_code, answer.json()["code"]) == (404, code)
        for path, params in (("/api/v1/harvest/sources/a%00b", {}), (f"{PATH}/explain", {"operation": "DROP"})):
            assert (await client.get(path, params=params, headers=OPERATOR)).status_code == 400
