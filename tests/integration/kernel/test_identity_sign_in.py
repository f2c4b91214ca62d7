"""One-time sign-in and acting for others, in the database."""

import asyncio
from datetime import timedelta

import pytest

from penstock.kernel.db import fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Role, acting_for, make_sign_in_code, redeem

ALICE = Caller("alice", "m-1", Role.ADMIN)


async def make(database, ttl=timedelta(minutes=5)):
    async with database.transaction() as tx:
        return await make_sign_in_code(tx, ALICE, ttl)


async def try_redeem(database, code):
    try:
        async with database.transaction() as tx:
            return await redeem(tx, code)
    except PenstockError as refusal:
        return refusal.code.code


class TestSigningIn:
    async def test_a_code_works_once(self, database):
        code = await make(database)
        assert await try_redeem(database, code) == ALICE
        assert await try_redeem(database, code) == "SIGN_IN_CODE_INVALID"

    async def test_of_many_at_once_one_wins(self, database):
        code = await make(database)
        outcomes = await asyncio.gather(*(try_redeem(database, code) for _ in range(15)))
        assert outcomes.count(ALICE) == 1
        assert outcomes.count("SIGN_IN_CODE_INVALID") == 14

    async def test_a_code_whose_transaction_failed_still_works(self, database):
        code = await make(database)
        with pytest.raises(RuntimeError):
            async with database.transaction() as tx:
                await redeem(tx, code)
                raise RuntimeError
        assert await try_redeem(database, code) == ALICE

    @pytest.mark.parametrize("code", ["", "made-up", "\x00", "\ud800", "x" * 10_000])
    async def test_a_made_up_code(self, database, code):
        assert await try_redeem(database, code) == "SIGN_IN_CODE_INVALID"

    async def test_an_old_code(self, database):
        assert await try_redeem(database, await make(database, timedelta(seconds=-1))) == "SIGN_IN_CODE_INVALID"

    async def test_the_code_itself_is_nowhere_in_the_database(self, database):
        code = await make(database)
        async with database.transaction() as tx:
            rows = await fetch_all(tx, "select * from sign_in_codes")
        assert len(rows) == 1
        assert code not in str(rows)

    async def test_long_expired_codes_are_swept_when_a_new_one_is_made(self, database):
        await make(database, timedelta(days=-2))
        await make(database)
        async with database.transaction() as tx:
            assert len(await fetch_all(tx, "select 1 from sign_in_codes")) == 1


async def audit_rows(database):
    async with database.transaction() as tx:
        return await fetch_all(tx, "select * from audit_log order by id")


class TestActingForAnother:
    @pytest.mark.parametrize("role", [Role.OPERATOR, Role.ADMIN])
    async def test_operators_and_admins_get_the_other_merchant_and_a_row_in_the_audit_log(self, database, role):
        async with database.transaction() as tx:
            acting = await acting_for(tx, Caller("bob", "m-1", role), "m-2", "req-1")
        assert acting == Caller("bob", "m-2", role)
        (row,) = await audit_rows(database)
        assert (row["actor"], row["role"], row["action"]) == ("bob", role.value, "impersonate_merchant")
        assert (row["merchant_id"], row["details"], row["request_id"]) == ("m-2", {"own_merchant_id": "m-1"}, "req-1")

    async def test_a_token_may_list_the_merchants_that_its_caller_acts_for(self, database):
        caller = Caller("bob", "m-1", Role.UPLOADER, act_for=("m-2", "m-3"))
        async with database.transaction() as tx:
            assert await acting_for(tx, caller, "m-3", None) == Caller("bob", "m-3", Role.UPLOADER)
        (row,) = await audit_rows(database)
        assert (row["actor"], row["merchant_id"]) == ("bob", "m-3")

    async def test_the_merchant_hears_of_it(self, database):
        async with database.transaction() as tx:
            await acting_for(tx, ALICE, "m-2", "req-1")
            (event,) = await fetch_all(tx, "select event_type, merchant_id, payload from outbox_events")
        assert (event["event_type"], event["merchant_id"]) == ("merchant.impersonated", "m-2")
        assert event["payload"] == {
            "actor": "alice", "role": "admin", "own_merchant_id": "m-1", "request_id": "req-1",
        }  # fmt: skip

    @pytest.mark.parametrize(
        "caller",
        [
            Caller("bob", "m-1", Role.UPLOADER),
            Caller("bob", "m-1", Role.ANNOTATOR),
            Caller("bob", "m-1", Role.UPLOADER, act_for=("m-22", "m-3")),
        ],
        ids=["uploader", "annotator", "other merchants listed"],
    )
    async def test_anyone_else_is_refused(self, database, caller):
        with pytest.raises(PenstockError) as refusal:
            async with database.transaction() as tx:
                await acting_for(tx, caller, "m-2", None)
        assert refusal.value.code.code == "MERCHANT_DENIED"
        assert await audit_rows(database) == []

    @pytest.mark.parametrize("merchant", [None, "m-1"])
    async def test_ones_own_merchant_is_nothing_to_write_down(self, database, merchant):
        annotator = Caller("bob", "m-1", Role.ANNOTATOR)
        async with database.transaction() as tx:
            assert await acting_for(tx, annotator, merchant, None) == annotator
        assert await audit_rows(database) == []

    async def test_what_was_not_done_is_not_written_down(self, database):
        with pytest.raises(RuntimeError):
            async with database.transaction() as tx:
                await acting_for(tx, ALICE, "m-2", None)
                raise RuntimeError
        assert await audit_rows(database) == []

    async def test_a_merchant_id_that_is_none(self, database):
        with pytest.raises(PenstockError) as refusal:
            async with database.transaction() as tx:
                await acting_for(tx, ALICE, "m {2}", None)
        assert refusal.value.code.code == "REQUEST_INVALID"
