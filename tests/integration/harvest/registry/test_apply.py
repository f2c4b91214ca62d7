"""Documents into the tables and back; what changes, what stays, what two at once do to each other."""

import asyncio
import os
import signal
from datetime import UTC, datetime, timedelta
from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from tests.support.clock import TurnedClock
from tests.support.programs import environment, start_python
from tests.support.sources import FITTING, WORKS, documents, works

from penstock.harvest.compiling.merge import Level
from penstock.harvest.desk import compile_registered
from penstock.harvest.planning import Trigger
from penstock.harvest.registry import dictionaries
from penstock.harvest.registry.apply import Applied, apply, preview
from penstock.harvest.registry.document import SourceDocument, read_source
from penstock.harvest.registry.rows import TABLES
from penstock.harvest.registry.store import load, load_all
from penstock.harvest.spec import Spec
from penstock.kernel.db import Database, fetch_all, fetch_one
from penstock.kernel.errors import PenstockError

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


async def applied(database: Database, document: SourceDocument, **options) -> Applied:
    async with database.transaction() as tx:
        return await apply(tx, document, "ann", **options)


async def loaded(database: Database, code: str = "works"):
    async with database.transaction() as tx:
        return await load(tx, code)


async def rows(database: Database, query: str) -> list[dict]:
    async with database.transaction() as tx:
        return await fetch_all(tx, query)


def together(levels: list[Level], name: str) -> dict:
    def lay(under: dict, over: dict) -> dict:
        return under | {
            key: lay(under[key], value) if isinstance(value, dict) and key in under else value
            for key, value in over.items()
        }

    return reduce(lay, (level.sections for level in levels if level.name == name), {})


class TestRoundTrip:
    async def test_what_is_loaded_from_the_tables_is_what_was_applied(self, database):
        outcome = await applied(database, works())
        source = await loaded(database)
        assert source.document == works().canonical()
        assert (outcome.version, source.version, source.name, source.updated_by) == (1, 1, "Works", "ann")
        assert source.endpoints["list"].linked_endpoint == "one"
        assert (source.endpoints["one"].role, source.default_endpoint) == ("DETAIL", "list")
        assert source.credentials["client"].reference == {
            "secret": {"file": "/run/secrets/works"},
            "clientId": {"store": "works-client"},
        }

    async def test_each_part_is_in_its_own_table(self, database):
        await applied(database, works())
        for table in TABLES:
            assert await rows(database, f"select 1 from {table}"), table
        params = await rows(
            database, "select param_name, location_code, sort_no from reg_prov_api_param_map order by 3"
        )
        assert [tuple(row.values()) for row in params] == [("q", "QUERY", 0), ("a", "HEADER", 1)]

    async def test_the_tables_are_the_truth_not_the_document_that_was_applied(self, database):
        await applied(database, works())
        async with database.transaction() as tx:
            await tx.execute("update reg_prov_retry_cfg set settings = '{\"maxAttempts\": 9}'")
        assert (await loaded(database)).document["endpoints"]["list"]["retry"] == {"maxAttempts": 9}
        outcome = await applied(database, works())
        assert [change.path for change in outcome.changes] == [
            "endpoints.list.retry.longest",
            "endpoints.list.retry.maxAttempts",
        ]
        assert (await loaded(database)).document == works().canonical()

    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
    @given(first=documents(), second=documents())
    def test_any_document_over_any_other_comes_back_as_it_is(self, database, loop, first, second):
        async def both() -> None:
            for document in (first, second):
                outcome = await applied(database, document)
                source = await loaded(database, "any")
                assert source.document == document.canonical()
                assert source.version == outcome.version
                assert not (await applied(database, document)).changes

        loop.run_until_complete(both())

    async def test_all_sources_are_loaded_each_with_its_own_rows(self, database):
        other = works(("source: works", "source: other"), ("pageSize: 1000", "pageSize: 7"))
        await applied(database, works())
        await applied(database, other)
        async with database.transaction() as tx:
            assert [source.document for source in await load_all(tx)] == [other.canonical(), works().canonical()]

    async def test_a_source_that_was_never_applied_is_unknown(self, database):
        with pytest.raises(PenstockError) as refused:
            await loaded(database, "nobody")
        assert refused.value.code.code == "SOURCE_UNKNOWN"


class TestLevels:
    async def test_they_say_what_the_document_says_the_weakest_first(self, database):
        await applied(database, works())
        levels = (await loaded(database)).levels("list")
        names = [level.name for level in levels]
        assert names == sorted(names, key=["source", "endpoint", "section"].index)
        endpoint = works().canonical()["endpoints"]["list"]
        assert together(levels, "source") == works().canonical()["defaults"]
        link = {"batching": {"twoPhase": {"linkedEndpoint": "one"}}}
        assert together(levels, "endpoint") == link | endpoint["defaults"]
        unsaid = {"role", "default", "linkedEndpoint", "defaults"}
        assert together(levels, "section") == {key: value for key, value in endpoint.items() if key not in unsaid}

    async def test_each_value_names_its_line_in_the_file(self, database):
        await applied(database, works(("{type: TOKEN, pageSize: 1000,", "{type: TOKEN,\n      pageSize: 1000,")))
        levels = (await loaded(database)).levels("list")
        line = WORKS.splitlines().index("    retry: {longest: 1m}") + 2
        retry = Level("section", f"sources/works.yaml:{line} endpoints.list", {"retry": {"longest": "PT1M"}})
        assert retry in levels
        first, second = [level for level in levels if "pagination" in level.sections]
        assert first.sections == {"pagination": {"type": "TOKEN"}}
        assert int(second.origin.split(":")[1].split()[0]) == int(first.origin.split(":")[1].split()[0]) + 1
        assert second.sections["pagination"]["pageSize"] == 1000

    async def test_without_a_file_they_name_the_table(self, database):
        await applied(database, works())
        async with database.transaction() as tx:
            await tx.execute("update reg_provenance_version set origins = '{}'")
        origins = {level.origin for level in (await loaded(database)).levels("list")}
        assert {"reg_provenance", "reg_prov_endpoint_def", "reg_prov_http_cfg", "reg_expr_field_dict"} <= origins

    async def test_lines_that_moved_are_known_without_a_new_version(self, database):
        await applied(database, works())
        outcome = await applied(database, works(("source: works", "\n\nsource: works")))
        assert (outcome.version, outcome.changes) == (1, ())
        assert (await loaded(database)).origins["source"] == "sources/works.yaml:4"


class TestVersions:
    async def test_the_same_document_again_changes_nothing_and_tells_nobody(self, database):
        await applied(database, works())
        again = await applied(database, works(("safetyLag: 30m", "safetyLag: PT1800S")))
        assert (again.version, again.changes) == (1, ())
        assert len(await rows(database, "select 1 from reg_provenance_version")) == 1
        assert len(await rows(database, "select 1 from outbox_events where event_type = 'source.applied'")) == 1

    async def test_a_change_makes_a_version_and_says_what_it_was(self, database):
        await applied(database, works())
        changed = works(("pageSize: 1000", "pageSize: 500"), ("      sink: true\n", ""))
        async with database.transaction() as tx:
            shown = await preview(tx, changed)
        outcome = await applied(database, changed)
        assert outcome.version == 2
        assert shown.changes == outcome.changes
        assert [(each.path, each.before, each.after) for each in outcome.changes] == [
            ("endpoints.list.mapping.sink", True, None),
            ("endpoints.list.pagination.pageSize", 1000, 500),
        ]
        kept = await rows(database, "select version, document, changes from reg_provenance_version order by version")
        assert [row["document"] for row in kept] == [works().canonical(), changed.canonical()]
        assert kept[1]["changes"] == [each.as_dict() for each in outcome.changes]

    async def test_a_null_and_an_empty_group_are_changes(self, database):
        await applied(database, works(("    count: {}\n", ""), (", totalPath: null", "")))
        outcome = await applied(database, works())
        assert [(each.path, each.after) for each in outcome.changes] == [
            ("endpoints.list.count", {}),
            ("endpoints.list.response.totalPath", None),
        ]
        assert (await loaded(database)).document == works().canonical()

    async def test_a_preview_writes_nothing(self, database):
        async with database.transaction() as tx:
            diff = await preview(tx, works())
        assert diff.version == 0
        assert ("endpoints.list.pagination.pageSize", None, 1000) in [
            (each.path, each.before, each.after) for each in diff.changes
        ]
        assert await rows(database, "select 1 from reg_provenance") == []

    async def test_an_endpoint_that_is_gone_from_the_file_is_gone(self, database):
        await applied(database, works())
        cut = WORKS[WORKS.index("  one:") : WORKS.index("schedules:")]
        last = WORKS[WORKS.index("  - {operation: UPDATE") :]
        await applied(database, works((cut, ""), (last, ""), ("    linkedEndpoint: one\n", "")))
        assert list((await loaded(database)).endpoints) == ["list"]
        for table in TABLES:
            if table != "reg_prov_credential":
                assert not await rows(database, f"select 1 from {table} where endpoint_name = 'one'"), table

    async def test_it_is_in_the_audit_log_and_announced(self, database):
        await applied(database, works())
        (entry,) = await rows(database, "select actor, action, subject from audit_log")
        assert entry == {"actor": "ann", "action": "apply_source", "subject": "source:works"}
        (event,) = await rows(database, "select payload from outbox_events where event_type = 'source.applied'")
        assert event["payload"]["source"] == "works"
        assert event["payload"]["version"] == 1

    async def test_a_paused_source_stays_paused(self, database):
        await applied(database, works())
        async with database.transaction() as tx:
            await tx.execute("update reg_provenance set is_active = false")
        await applied(database, works(("name: Works", "name: More works")))
        source = await loaded(database)
        assert (source.is_active, source.name) == (False, "More works")


class TestRefusing:
    async def test_a_source_that_does_not_fit_together_is_not_applied(self, database):
        def unfit(source):
            return [{"rule": "r", "key": source.provenance_code, "levels": len(source.levels("list"))}]

        with pytest.raises(PenstockError) as refused:
            await applied(database, works(), check=unfit)
        assert refused.value.code.code == "SPEC_INVALID"
        assert refused.value.details["problems"][0]["key"] == "works"
        assert await rows(database, "select 1 from reg_provenance") == []
        async with database.transaction() as tx:
            with pytest.raises(PenstockError):
                await preview(tx, works(), check=unfit)


class TestSchedules:
    async def schedules(self, database) -> dict[str, dict]:
        found = await rows(database, "select * from reg_schedule")
        return {f"{row['endpoint_name']} {row['operation_code']}": row for row in found}

    async def test_an_interval_begins_at_once_and_a_cron_line_at_its_time(self, database):
        await applied(database, works(), clock=TurnedClock(NOW))
        found = await self.schedules(database)
        assert found["list HARVEST"]["next_run_at"] == NOW
        assert found["list HARVEST"]["every"] == timedelta(minutes=10)
        assert found["one UPDATE"]["next_run_at"] == datetime(2026, 3, 2, 2, 30, tzinfo=UTC)

    async def test_an_unchanged_one_keeps_its_next_run_and_its_pause(self, database):
        await applied(database, works(), clock=TurnedClock(NOW))
        async with database.transaction() as tx:
            await tx.execute("update reg_schedule set is_active = false where operation_code = 'HARVEST'")
        later = TurnedClock(NOW + timedelta(days=3))
        await applied(database, works(("pageSize: 1000", "pageSize: 5"), ("30 2 * * *", "0 3 * * *")), clock=later)
        found = await self.schedules(database)
        assert (found["list HARVEST"]["next_run_at"], found["list HARVEST"]["is_active"]) == (NOW, False)
        assert found["one UPDATE"]["next_run_at"] == datetime(2026, 3, 5, 3, 0, tzinfo=UTC)

    async def test_one_that_is_gone_from_the_file_is_gone(self, database):
        await applied(database, works())
        await applied(database, works(("  - {operation: HARVEST, every: 10m}\n", "")))
        assert list(await self.schedules(database)) == ["one UPDATE"]


class TestTwoAtOnce:
    async def test_none_is_lost_and_each_sees_the_one_before(self, database):
        sizes = range(1, 9)
        outcomes = await asyncio.gather(
            *(applied(database, works(("pageSize: 1000", f"pageSize: {size}"))) for size in sizes)
        )
        assert sorted(outcome.version for outcome in outcomes) == list(range(1, 9))
        kept = await rows(database, "select version, document, changes from reg_provenance_version order by version")
        seen = [row["document"]["endpoints"]["list"]["pagination"]["pageSize"] for row in kept]
        assert sorted(seen) == list(sizes)
        told = [row["changes"] for row in kept[1:]]
        assert [(each["before"], each["after"]) for (each,) in told] == list(pairwise(seen))
        assert (await loaded(database)).document == kept[-1]["document"]

    async def test_the_same_at_once_is_one_version(self, database):
        outcomes = await asyncio.gather(*(applied(database, works()) for _ in range(6)))
        assert {outcome.version for outcome in outcomes} == {1}
        assert len([outcome for outcome in outcomes if outcome.changes]) == 1

    async def test_killed_halfway_nothing_of_it_is_there_and_again_it_is_whole(self, database, database_url, tmp_path):
        await applied(database, read_source(FITTING.encode(), "sources/works.yaml"))
        file = tmp_path / "works.yaml"
        file.write_text(FITTING.replace("pageSize: 1000", "pageSize: 5"))
        command = ("-m", "penstock", "harvest", "apply", str(file), "--yes")
        env = environment(PENSTOCK_DATABASE_URL=database_url)
        killed = start_python(*command, env={**env, "PENSTOCK_FAILPOINT": "registry.written=kill"}, cwd=tmp_path)
        assert await asyncio.to_thread(killed.wait, 30) == -signal.SIGKILL
        assert (await loaded(database)).document == read_source(FITTING.encode(), "sources/works.yaml").canonical()
        again = start_python(*command, env=env, cwd=tmp_path, stdout=os.open(os.devnull, os.O_WRONLY))
        assert await asyncio.to_thread(again.wait, 30) == 0
        source = await loaded(database)
        assert (source.version, source.document["endpoints"]["list"]["pagination"]["pageSize"]) == (2, 5)


class TestDictionaries:
    async def test_they_are_there_once_a_source_is_applied_aliases_included(self, database):
        await applied(database, works())
        codes = (await loaded(database)).codes
        assert codes["http_method"] == {"GET", "POST", "get", "post"}
        assert {"HARVEST", "harvest"} <= codes["ing_operation"]
        (row,) = await rows(database, "select item_code from sys_dict_item_alias where alias = 'get'")
        assert row == {"item_code": "GET"}

    async def test_a_check_before_the_first_one_is_applied_knows_them_too(self, database):
        seen = []
        async with database.transaction() as tx:
            await preview(tx, works(), check=lambda source: seen.append(source.codes) or [])
        assert "GET" in seen[0]["http_method"]

    async def test_a_code_that_somebody_added_is_known(self, database):
        async with database.transaction() as tx:
            await dictionaries.seed(tx)
            await tx.execute("insert into sys_dict_item values ('http_method', 'PUT', '写入', 'Put')")
            assert "PUT" in (await dictionaries.known_codes(tx))["http_method"]

    async def test_seeding_again_leaves_what_people_changed(self, database):
        async with database.transaction() as tx:
            await dictionaries.seed(tx)
            await tx.execute("update sys_dict_item set is_active = false where item_code = 'POST'")
            await tx.execute("update sys_dict_item set name_en = 'Fetch' where item_code = 'GET'")
        async with database.transaction() as tx:
            await dictionaries.seed(tx)
            assert (await dictionaries.known_codes(tx))["http_method"] == {"GET", "get"}
            row = await fetch_one(tx, "select name_en from sys_dict_item where item_code = 'GET'")
        assert row == {"name_en": "Fetch"}


class TestReach:
    """Whether a source may lead into our own network is decided by who applied it last."""

    async def test_a_source_of_the_command_line_may_and_one_of_the_api_may_not(self, database):
        await applied(database, works())
        assert (await loaded(database)).allows_private
        await applied(database, remote(works(("name: Works", "name: Works over the API"))))
        assert not (await loaded(database)).allows_private

    async def test_the_same_document_over_the_api_takes_nothing_from_the_operators(self, database):
        await applied(database, works())
        await applied(database, remote(works()))
        assert (await loaded(database)).allows_private

    async def test_the_operator_takes_over_a_source_without_a_new_version(self, database):
        assert (await applied(database, remote(works()))).version == 1
        assert (await applied(database, works())).version == 1
        assert (await loaded(database)).allows_private

    async def test_every_snapshot_says_it_and_one_from_before_is_the_operators(self, database):
        fitting = [read_source(FITTING.encode(), "sources/works.yaml") for _ in range(2)]
        for document, expected in ((remote(fitting[0]), False), (fitting[1], True)):
            await applied(database, document)
            compiled = compile_registered(await loaded(database), Trigger("works"))
            assert compiled.snapshot["allowsPrivate"] is expected
            assert Spec.read(compiled.snapshot).allows_private is expected
            before = {key: value for key, value in compiled.snapshot.items() if key != "allowsPrivate"}
            assert Spec.read(before).allows_private


def remote(document: SourceDocument) -> SourceDocument:
    document.mark_remote()
    return document
