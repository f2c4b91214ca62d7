"""Rules in their tables: made, changed, found, and never lost."""

import asyncio
import signal
from dataclasses import replace

import pytest
from psycopg.types.json import Jsonb
from tests.support.programs import environment, start_python
from tests.support.rule_places import TERMS

from penstock.extraction.rule_content import BUILT_IN, restored, snapshot
from penstock.extraction.rule_lists import find_version, list_rules, list_versions
from penstock.extraction.rules import (
    change_rule,
    create_rule,
    delete_rule,
    find_rule,
    find_rules,
    rule_for,
)
from penstock.extraction.settings import EtlSettings
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Role

ANN = Caller("ann", "m1", Role.UPLOADER)
BOB = Caller("bob", "m2", Role.UPLOADER)
OLGA = Caller("olga", "ops", Role.OPERATOR)
SETTINGS = EtlSettings()
SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
INVOICE = {"name": "invoice", "json_schema": SCHEMA, "system_prompt": "Read the invoice."}


async def made(database: Database, caller: Caller = ANN, **changes):
    return await create_rule(database, caller, INVOICE | changes, TERMS)


async def changed(database: Database, rule_id: int, caller: Caller = ANN, **changes):
    return await change_rule(database, caller, rule_id, changes, TERMS)


async def refused(code: str, awaitable) -> PenstockError:
    with pytest.raises(PenstockError) as failure:
        await awaitable
    assert failure.value.code.code == code
    return failure.value


async def versions(database: Database, rule_id: int) -> list[tuple[int, dict]]:
    async with database.transaction() as tx:
        rows = await fetch_all(
            tx, "select version, content from etl_rule_version where rule_id = %s order by 1", (rule_id,)
        )
    return [(row["version"], row["content"]) for row in rows]


class TestMaking:
    async def test_a_rule_gets_a_number_and_its_first_version(self, database):
        kept = await made(database)
        assert (kept.rule.rule_id, kept.rule.version, kept.merchant_id, kept.created_by) == (2, 1, "m1", "ann")
        assert kept.rule.postprocess_mode == "llm"
        assert [version for version, _ in await versions(database, 2)] == [1]

    async def test_a_rule_that_skips_needs_no_schema(self, database):
        kept = await made(database, json_schema=None, postprocess_mode="skip")
        assert kept.rule.json_schema is None

    @pytest.mark.parametrize(
        ("wrong", "path"),
        [
            ({"json_schema": None}, "/json_schema"),
            ({"json_schema": None, "postprocess_mode": "rules"}, "/json_schema"),
            ({"json_schema": {"type": "objct"}}, "/json_schema/type"),
            ({"json_schema": {"$ref": "https://example.org/x"}}, "/json_schema/$ref"),
            ({"name": " "}, "/name"),
            ({"name": "a\nb"}, "/name"),
            ({"name": "x" * 201}, "/name"),
            ({"name": 7}, "/name"),
            ({"name": "a\x00b"}, "/name"),
            ({"system_prompt": "x" * 20_001}, "/system_prompt"),
            ({"description": "\ud800"}, "/description"),
            ({"json_schema": {"title": "\x00"}}, "/json_schema"),
            ({"json_schema": {"type": "number", "minimum": float("nan")}}, "/json_schema"),
            ({"options": {"x": [float("inf")]}}, "/options"),
            ({"postprocess_mode": "magic"}, "/postprocess_mode"),
            ({"postprocess_strategy": "guess"}, "/postprocess_strategy"),
            ({"options": []}, "/options"),
            ({"examples": {}}, "/examples"),
            ({"examples": [{"text": "a", "result": {"total": 1}}] * 21}, "/examples"),
            ({"examples": [{"text": "a" * 70_000, "result": {"total": 1}}]}, "/examples"),
            ({"examples": [{"text": "a"}]}, "/examples/0"),
            ({"examples": [{"text": "a", "result": {"total": 1}, "more": 1}]}, "/examples/0"),
            ({"examples": [{"text": " ", "result": {"total": 1}}]}, "/examples/0/text"),
            ({"examples": [{"text": "a", "result": {"total": "much"}}]}, "/examples/0/result/total"),
            ({"examples": [{"text": "\x00", "result": {"total": 1}}]}, "/examples"),
            (
                {"json_schema": None, "postprocess_mode": "skip", "examples": [{"text": "a", "result": 1}]},
                "/examples",
            ),
            ({"options": {"x": "y" * 70_000}}, "/options"),
            ({"postprocess_mode": "rules", "options": {"fields": {"total": {}}}}, "/options/fields/total"),
            ({"colour": "red"}, "/colour"),
        ],
    )  # fmt: skip
    async def test_what_cannot_work_is_refused_by_path(self, database, wrong, path):
        failure = await refused("ETL_RULE_INVALID", made(database, **wrong))
        (problem,) = failure.details["problems"]
        assert problem["path"] == path
        assert problem["message"].isascii()
        assert not problem["message_zh"].isascii()

    async def test_a_name_is_taken_once_for_each_merchant(self, database):
        await made(database)
        await refused("ETL_RULE_NAME_TAKEN", made(database, name=" invoice "))
        assert (await made(database, BOB)).rule.rule_id > 2

    async def test_of_many_at_once_with_one_name_one_is_made(self, database):
        outcomes = await asyncio.gather(*(made(database) for _ in range(8)), return_exceptions=True)
        assert sorted(type(each).__name__ for each in outcomes) == ["KeptRule"] + ["PenstockError"] * 7
        async with database.transaction() as tx:
            assert len(await fetch_all(tx, "select * from etl_rule_version")) == 1

    async def test_of_many_at_once_no_more_are_made_than_a_merchant_may_have(self, database):
        terms = replace(TERMS, most_rules=3)
        making = (create_rule(database, ANN, INVOICE | {"name": f"r{n}"}, terms) for n in range(8))
        outcomes = await asyncio.gather(*making, return_exceptions=True)
        refusals = [each.code.code for each in outcomes if isinstance(each, PenstockError)]
        assert refusals == ["ETL_RULES_TOO_MANY"] * 5
        await create_rule(database, BOB, INVOICE, terms)


class TestChanging:
    async def test_each_change_is_a_version_and_the_old_ones_stay(self, database):
        rule_id = (await made(database)).rule.rule_id
        await changed(database, rule_id, system_prompt="Two")
        kept = await changed(database, rule_id, description="three")
        assert (kept.rule.version, kept.rule.system_prompt, kept.rule.description) == (3, "Two", "three")
        told = [
            (version, said["system_prompt"], said["description"]) for version, said in await versions(database, rule_id)
        ]
        assert told == [(1, "Read the invoice.", ""), (2, "Two", ""), (3, "Two", "three")]

    async def test_a_change_that_changes_nothing_makes_no_version(self, database):
        rule_id = (await made(database)).rule.rule_id
        assert (await changed(database, rule_id, **INVOICE)).rule.version == 1
        assert len(await versions(database, rule_id)) == 1

    async def test_of_two_who_read_the_same_version_the_second_is_told(self, database):
        rule_id = (await made(database)).rule.rule_id
        outcomes = await asyncio.gather(
            *(changed(database, rule_id, version=1, system_prompt=f"by {n}") for n in range(6)), return_exceptions=True
        )
        lost = [each for each in outcomes if isinstance(each, PenstockError)]
        assert {each.code.code for each in lost} == {"CONFIG_VERSION_CONFLICT"}
        assert len(lost) == 5
        assert [version for version, _ in await versions(database, rule_id)] == [1, 2]

    async def test_changes_at_once_without_a_version_are_counted_without_gaps(self, database):
        rule_id = (await made(database)).rule.rule_id
        await asyncio.gather(*(changed(database, rule_id, system_prompt=f"by {n}") for n in range(10)))
        assert [version for version, _ in await versions(database, rule_id)] == list(range(1, 12))

    async def test_a_change_that_is_not_valid_leaves_everything(self, database):
        rule_id = (await made(database)).rule.rule_id
        await refused("ETL_RULE_INVALID", changed(database, rule_id, json_schema=None))
        await made(database, name="other")
        await refused("ETL_RULE_NAME_TAKEN", changed(database, rule_id, name="other"))
        assert len(await versions(database, rule_id)) == 1

    async def test_the_built_in_rule_stays_as_it_is(self, database):
        await refused("ETL_RULE_BUILT_IN", changed(database, 1, name="mine"))
        async with database.transaction() as tx:
            await refused("ETL_RULE_BUILT_IN", delete_rule(tx, OLGA, 1))

    async def test_killed_before_the_commit_neither_rule_nor_version_has_changed(self, database, database_url):
        rule_id = (await made(database)).rule.rule_id
        env = environment(PENSTOCK_TEST_URL=database_url, PENSTOCK_FAILPOINT="etl.rule_changed=kill")
        program = start_python("-c", _CHANGE_AND_DIE, str(rule_id), env=env)
        assert await asyncio.to_thread(program.wait, 30) == -signal.SIGKILL
        async with database.transaction() as tx:
            assert (await find_rule(tx, ANN, rule_id, SETTINGS)).rule.version == 1
        assert len(await versions(database, rule_id)) == 1
        assert (await changed(database, rule_id, version=1, system_prompt="again")).rule.version == 2


_CHANGE_AND_DIE = """
import asyncio, os, sys
from penstock.extraction.rules import change_rule
from tests.support.rule_places import TERMS
from penstock.kernel.db import Database
from penstock.kernel.identity import Caller, Role

async def main():
    database = Database(os.environ["PENSTOCK_TEST_URL"], name="dies")
    await database.open()
    await change_rule(database, Caller("ann", "m1", Role.UPLOADER), int(sys.argv[1]), {"system_prompt": "lost"}, TERMS)

asyncio.run(main())
"""


class TestDeleting:
    async def test_a_deleted_rule_is_gone_but_its_versions_stay(self, database):
        rule_id = (await made(database)).rule.rule_id
        async with database.transaction() as tx:
            await delete_rule(tx, ANN, rule_id, 1)
        async with database.transaction() as tx:
            await refused("ETL_RULE_NOT_FOUND", find_rule(tx, ANN, rule_id, SETTINGS))
            await refused("ETL_RULE_NOT_FOUND", delete_rule(tx, ANN, rule_id))
            await refused("ETL_RULE_NOT_FOUND", changed(database, rule_id, name="x"))
        assert len(await versions(database, rule_id)) == 1

    async def test_its_name_is_free_again(self, database):
        rule_id = (await made(database)).rule.rule_id
        async with database.transaction() as tx:
            await delete_rule(tx, ANN, rule_id)
        assert (await made(database)).rule.rule_id != rule_id

    async def test_one_that_changed_since_is_not_deleted(self, database):
        rule_id = (await made(database)).rule.rule_id
        await changed(database, rule_id, system_prompt="new")
        async with database.transaction() as tx:
            await refused("CONFIG_VERSION_CONFLICT", delete_rule(tx, ANN, rule_id, 1))


class TestFinding:
    async def test_the_built_in_rule_is_first_and_says_that_it_is_the_system_s(self, database):
        await made(database)
        await made(database, BOB, name="bob's")
        async with database.transaction() as tx:
            found = await find_rules(tx, ANN, SETTINGS)
            assert [(kept.rule.name, kept.rule.is_system) for kept in found] == [("default", True), ("invoice", False)]
            assert found[0].rule.postprocess_mode == "skip"
            assert len(await find_rules(tx, OLGA, SETTINGS)) == 3

    async def test_a_long_list_is_read_in_parts(self, database):
        for n in range(5):
            await made(database, name=f"r{n}")
        names, after = [], 0
        async with database.transaction() as tx:
            while part := await find_rules(tx, ANN, SETTINGS, after=after, limit=2):
                names += [kept.rule.name for kept in part]
                after = part[-1].rule.rule_id
        assert names == ["default", "r0", "r1", "r2", "r3", "r4"]

    @pytest.mark.parametrize("limit", [1, 2, 3])
    async def test_in_parts_the_default_for_everybody_is_listed_once_and_hides_no_other(self, database, limit):
        own = [(await made(database, name=f"r{n}")).rule.rule_id for n in range(2)]
        default = (await made(database, OLGA)).rule.rule_id
        own += [(await made(database, name=f"later{n}")).rule.rule_id for n in range(2)]
        settings = EtlSettings(global_rule_id=default)
        found, after = [], 0
        async with database.transaction() as tx:
            while part := await find_rules(tx, ANN, settings, after=after, limit=limit):
                assert len(part) == limit or not await find_rules(tx, ANN, settings, after=part[-1].rule.rule_id)
                short = await list_rules(tx, ANN, settings, after=after, limit=limit)
                assert [each.rule_id for each in short] == [kept.rule.rule_id for kept in part]
                found += [(each.rule_id, each.is_system) for each in short]
                after = part[-1].rule.rule_id
        assert found == sorted([(1, True), (default, True), *((each, False) for each in own)])

    async def test_another_merchants_rule_is_not_there(self, database):
        rule_id = (await made(database)).rule.rule_id
        async with database.transaction() as tx:
            for attempt in (
                find_rule(tx, BOB, rule_id, SETTINGS), list_versions(tx, BOB, rule_id),
                find_version(tx, BOB, rule_id, 1),
                rule_for(tx, rule_id, BOB, SETTINGS),
                changed(database, rule_id, BOB), delete_rule(tx, BOB, rule_id),
                find_rule(tx, ANN, 10**30, SETTINGS),
            ):  # fmt: skip
                await refused("ETL_RULE_NOT_FOUND", attempt)
            assert (await find_rule(tx, OLGA, rule_id, SETTINGS)).merchant_id == "m1"

    async def test_every_version_can_be_read_again(self, database):
        rule_id = (await made(database)).rule.rule_id
        await changed(database, rule_id, OLGA, system_prompt="Two")
        async with database.transaction() as tx:
            listed = await list_versions(tx, ANN, rule_id)
            found = [await find_version(tx, ANN, rule_id, each.version) for each in listed]
        assert [(each.rule.version, each.rule.system_prompt, each.created_by) for each in found] == [
            (2, "Two", "olga"), (1, "Read the invoice.", "ann"),
        ]  # fmt: skip


class TestTheRuleOfATask:
    async def test_without_a_rule_the_built_in_one_is_used(self, database):
        async with database.transaction() as tx:
            assert await rule_for(tx, None, ANN, SETTINGS) is BUILT_IN
            assert await rule_for(tx, 1, ANN, EtlSettings(global_rule_enabled=False)) is BUILT_IN

    async def test_where_the_default_is_off_a_rule_must_be_named(self, database):
        async with database.transaction() as tx:
            await refused("ETL_RULE_REQUIRED", rule_for(tx, None, ANN, EtlSettings(global_rule_enabled=False)))

    async def test_another_default_is_everybodys_to_use_and_its_owners_to_change(self, database):
        rule_id = (await made(database, OLGA)).rule.rule_id
        settings = EtlSettings(global_rule_id=rule_id)
        async with database.transaction() as tx:
            assert (await rule_for(tx, None, BOB, settings)).name == "invoice"
            listed = await find_rules(tx, BOB, settings)
            assert [(kept.rule.rule_id, kept.rule.is_system) for kept in listed] == [(1, True), (rule_id, True)]
            await refused("ETL_RULE_NOT_FOUND", changed(database, rule_id, BOB, name="x"))
            await refused("ETL_RULE_NOT_FOUND", rule_for(tx, None, BOB, EtlSettings(global_rule_id=999)))

    async def test_a_rule_is_the_same_after_it_was_kept_with_a_task(self, database):
        rule = (await made(database, options={"a": [1, 2.5]}, postprocess_strategy="chunked-extract")).rule
        async with database.transaction() as tx:
            row = await fetch_all(tx, "select %s::jsonb as kept", (Jsonb(snapshot(rule)),))
        assert restored(row[0]["kept"]) == rule
