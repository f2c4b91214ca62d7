"""Records of a stand-in and of the real service never meet in one database."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from penstock.cli.harvest.rehearsal import refuse_mixing
from penstock.cli.screen import Refusal
from penstock.harvest.executing import store
from penstock.kernel.db import fetch_one

_PLAN = """
insert into ing_plan (schedule_instance_id, provenance_code, endpoint_name, operation_code, plan_strategy_code,
  expr_proto_hash, expr_proto_snapshot, spec_fingerprint, status_code, cursor_key, cursor_type_code,
  namespace_scope_code, namespace_key, direction_code, priority)
values (1, 'works', 'list', 'HARVEST', 'TIME', 'h', jsonb_build_object('http', jsonb_build_object('baseUrl', %s::text)),
  'f', 'READY', 'k', 'TIME', 'EXPR', 'n', 'FORWARD', 1)
"""


async def planned(database, address: str) -> SimpleNamespace:
    async with database.transaction() as tx:
        await tx.execute(_PLAN, (address,))
    return SimpleNamespace(database=database)  # it asks for nothing else


class TestMixing:
    async def test_a_stand_in_is_refused_where_the_real_service_was_harvested(self, database):
        desk = await planned(database, "https://api.example.org/v1")
        await refuse_mixing(desk, "works", is_standin=False)
        with pytest.raises(Refusal, match="Use another data directory"):
            await refuse_mixing(desk, "works", is_standin=True)

    async def test_the_real_service_is_refused_where_a_stand_in_was_harvested(self, database):
        desk = await planned(database, "http://127.0.0.1:18701/v1")
        await refuse_mixing(desk, "works", is_standin=True)
        with pytest.raises(Refusal, match="Add --standin"):
            await refuse_mixing(desk, "works", is_standin=False)

    async def test_other_sources_do_not_matter(self, database):
        desk = await planned(database, "https://api.example.org/v1")
        await refuse_mixing(desk, "other", is_standin=True)


class TestHolding:
    async def test_a_release_ends_only_what_was_held_for_the_same_reason(self, database):
        async with database.transaction() as tx:
            await tx.execute("insert into ing_partition (provenance_code, endpoint_name, operation_code) values"
                             " ('works', 'list', 'HARVEST')")  # fmt: skip
            await store.hold_source(tx, "works", timedelta(days=9), "stand-in stopped")
            await store.release_source(tx, "works", "rate")
            held = await fetch_one(
                tx, "select not_before > now() + interval '8 days' as held, reason from ing_partition"
            )
            await store.release_source(tx, "works", "stand-in stopped")
            free = await fetch_one(tx, "select not_before > now() as held, reason from ing_partition")
        assert held == {"held": True, "reason": "stand-in stopped"}
        assert free == {"held": False, "reason": None}
