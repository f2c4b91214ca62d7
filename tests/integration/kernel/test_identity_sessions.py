"""Sessions that were signed out: known to every process, for as long as their tokens would last."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.clock import TurnedClock

from penstock.kernel import error_codes
from penstock.kernel.db import Database, fetch_all
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, EndedSessions, Identity, IdentitySettings, Role

SECRET = "a secret of at least thirty-two bytes"
ALICE = Caller("alice", "m-1", Role.OPERATOR)


def process(database, clock=None):
    """The identity of one process, and its clock."""
    clock = clock or TurnedClock(datetime.now(UTC))
    sessions = EndedSessions(database, clock)
    return Identity(IdentitySettings(secret=SECRET), clock, sessions), sessions, clock


async def is_taken(identity, token):
    try:
        return await identity.verify(token) == ALICE
    except PenstockError as refusal:
        assert refusal.code.code == "TOKEN_INVALID"
        return False


class TestSigningOut:
    async def test_the_process_that_signed_it_out_refuses_it_at_once(self, database):
        identity, sessions, _ = process(database)
        token = identity.issue_session(ALICE)
        caller = await identity.verify(token)
        await sessions.end(caller)
        assert not await is_taken(identity, token)

    async def test_every_other_process_refuses_it_within_a_second(self, database):
        here, sessions, _ = process(database)
        elsewhere, _, clock = process(database)
        token = here.issue_session(ALICE)
        assert await is_taken(elsewhere, token)
        await sessions.end(await here.verify(token))
        clock.advance(1.01)
        assert not await is_taken(elsewhere, token)

    async def test_a_process_that_starts_afterwards_refuses_it(self, database):
        identity, sessions, _ = process(database)
        token = identity.issue_session(ALICE)
        await sessions.end(await identity.verify(token))
        assert not await is_taken(process(database)[0], token)

    async def test_rows_go_when_no_token_of_theirs_could_be_valid(self, database):
        identity, sessions, _ = process(database)
        async with database.transaction() as tx:
            await tx.execute("insert into ended_sessions values ('old', now() - interval '2 days')")
        await sessions.end(await identity.verify(identity.issue_session(ALICE)))
        async with database.transaction() as tx:
            rows = await fetch_all(tx, "select session_id, expires_at from ended_sessions")
        assert len(rows) == 1
        assert rows[0]["expires_at"] > datetime.now(UTC) + timedelta(hours=11)


class TestTheCost:
    async def test_within_a_second_the_database_is_not_asked_again(self, database):
        here, sessions, _ = process(database)
        elsewhere, _, clock = process(database)
        token = here.issue_session(ALICE)
        assert await is_taken(elsewhere, token)
        await sessions.end(await here.verify(token))
        clock.advance(0.9)
        assert await is_taken(elsewhere, token)

    async def test_between_lookups_a_request_costs_microseconds(self, database):
        identity, _, _ = process(database)
        token = identity.issue_session(ALICE)
        await identity.verify(token)
        started = time.process_time()
        for _ in range(1000):
            await identity.verify(token)
        assert time.process_time() - started < 0.1  # 100 µs each at the very worst


class TestTrouble:
    @pytest.fixture
    async def away(self):
        """A database that nobody answers for."""
        made = Database("postgresql://nobody@127.0.0.1:1/none", name="away", wait_seconds=0.2)
        await made.open()
        yield made
        await made.close()

    async def test_a_database_that_is_away_opens_nothing_and_is_not_the_callers_fault(self, away):
        identity, _, _ = process(away)
        with pytest.raises(PenstockError) as refusal:
            await identity.verify(identity.issue_session(ALICE))
        assert refusal.value.code is error_codes.DB_UNAVAILABLE

    async def test_tokens_of_scripts_need_no_database(self, away):
        identity, _, _ = process(away)
        assert await is_taken(identity, identity.issue(ALICE))
