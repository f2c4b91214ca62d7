"""A data engineer's first harvest: `penstock up`, then a stand-in is harvested, stopped, killed and gone on with.

In the end there is exactly what the source holds, each record once, however often the harvest was cut off.
"""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from tests.standins import Library, standin
from tests.support.places import open_directory
from tests.support.programs import environment
from tests.support.terminals import Terminal
from tests.support.ups import Up

from penstock.cli.harvest.rehearsal import DAYS, first_day
from penstock.embedded import EmbeddedPostgres

ROOT = Path(__file__).parents[2]
RECORDS = 3_000
QUICK = {"PENSTOCK_HARVEST_LEASE_SECONDS": "4", "PENSTOCK_HARVEST_POLL_SECONDS": "0.2"}


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """No role of it takes tasks: what is stored, the command has stored."""
    with open_directory() as directory:
        up = Up(directory / "data").ready()
        yield directory / "data"
        up.end()


def command(home: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock", "harvest", *arguments, "--data", str(home)]


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(home, *arguments), check=False, capture_output=True, text=True, cwd=ROOT, timeout=60,
        env=environment(**QUICK),
    )  # fmt: skip


def begin(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(home, *arguments), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT,
        env=environment(**QUICK),
    )  # fmt: skip


def stored(home: Path, source: str) -> dict[str, tuple[datetime, int]]:
    with psycopg.connect(EmbeddedPostgres(home).url) as connection:
        rows = connection.execute(
            "select provider_id, updated_at, revision from ing_record where provenance_code = %s", (source,)
        )
        return {row[0]: (row[1], row[2]) for row in rows}


def expected(source: str, records: int = RECORDS) -> dict[str, datetime]:
    library = Library(records, days=DAYS, start=first_day(datetime.now(UTC)))

    async def held() -> dict[str, datetime]:
        async with standin(source, library) as api:
            return {name: shown.updated for name, shown in api.records_at(library.end).items()}

    return asyncio.run(held())


def until_some_are_stored(home: Path, source: str, process: subprocess.Popen[str], least: int = 500) -> None:
    deadline = time.monotonic() + 30
    while len(stored(home, source)) < least:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "nothing was stored"
        time.sleep(0.02)


def is_whole(home: Path, source: str) -> bool:
    """Each record of the stand-in once, in its last version, and none besides."""
    found = stored(home, source)
    assert all(revision == 1 for _, revision in found.values())
    return {name: updated for name, (updated, _) in found.items()} == expected(source)


@pytest.fixture(scope="module")
def stopped_and_gone_on(home: Path) -> tuple[str, int, str]:
    """What a run said that was stopped half way, how many records it left, and what the next one said."""
    arguments = ("run", "crossref", "--standin", "--records", str(RECORDS))
    first = begin(home, *arguments)
    until_some_are_stored(home, "crossref", first)
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=30)[0]
    assert first.returncode == 130, said
    left = len(stored(home, "crossref"))
    again = run(home, *arguments)
    assert again.returncode == 0, again.stderr
    return said, left, again.stderr


class TestStoppedAndGoneOnWith:
    def test_it_ends_with_exactly_what_the_source_holds(self, home, stopped_and_gone_on):
        said, left, then = stopped_and_gone_on
        assert "without its schedules" in said
        assert "the same command goes on from here" in said
        assert 0 < left < RECORDS
        assert "going on with what was left" in then
        assert is_whole(home, "crossref")

    def test_another_run_finds_nothing_new(self, home, stopped_and_gone_on):
        again = run(home, "run", "crossref", "--standin", "--records", str(RECORDS))
        assert again.returncode == 0
        assert "Nothing new." in again.stdout
        assert is_whole(home, "crossref")

    def test_real_records_are_not_mixed_with_made_up_ones(self, home, stopped_and_gone_on):
        refused = run(home, "run", "crossref")
        assert refused.returncode == 1
        assert "made-up records of the stand-in" in refused.stderr

    def test_a_schedule_that_would_fetch_real_ones_is_not_applied_beside_them(self, home, stopped_and_gone_on):
        refused = run(home, "apply", "sources/crossref.yaml", "--yes")
        assert refused.returncode == 1
        assert "holds made-up records of the stand-in of crossref" in refused.stderr
        assert run(home, "run", "crossref", "--standin", "--records", str(RECORDS)).returncode == 0

    def test_while_no_stand_in_runs_its_tasks_rest(self, home, stopped_and_gone_on):
        (row,) = json.loads(run(home, "status", "crossref", "--json").stdout)
        assert row["resting_reason"] == "stand-in stopped"
        assert datetime.fromisoformat(row["resting_until"]) > datetime.now(UTC) + timedelta(days=365)
        assert (row["queued"], row["running"], row["failed"]) == (0, 0, 0)


class TestKilled:
    def test_the_next_run_waits_for_the_dead_ones_leases_and_makes_it_whole(self, home):
        arguments = ("run", "pubmed", "--standin", "--records", str(RECORDS))
        first = begin(home, *arguments)
        until_some_are_stored(home, "pubmed", first)
        first.kill()
        first.communicate()
        before = len(stored(home, "pubmed"))
        again = run(home, *arguments, "--json")
        assert again.returncode == 0, again.stderr
        told = json.loads(again.stdout)
        assert (told["outcome"], told["tasks"]["failed"]) == ("done", 0)
        assert told["items"]["new"] == RECORDS - before
        assert is_whole(home, "pubmed")


class TestTwoAtOnce:
    def test_commands_on_one_source_share_its_stand_in_and_leave_it_at_rest(self, home):
        first = begin(home, "run", "arxiv", "--standin", "--records", "2000")
        second = begin(home, "backfill", "arxiv", "--standin", "--records", "2000", "--since", "20d")
        told = [process.communicate(timeout=60)[0] for process in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0), told
        assert set(stored(home, "arxiv")) == set(expected("arxiv", 2000))
        row, *_ = json.loads(run(home, "status", "arxiv", "--json").stdout)
        assert row["resting_reason"] == "stand-in stopped"


class TestWhatAPersonSees:
    def test_numbers_while_it_runs_and_how_to_go_on_after_ctrl_c(self, home, monkeypatch):
        monkeypatch.chdir(ROOT)
        arguments = command(home, "run", "openalex", "--standin", "--records", "9000")  # ninety pages
        shown = Terminal(arguments, environment(**QUICK), columns=120)
        try:
            shown.until(" windows")
            shown.interrupt()
            assert shown.end() == 130
            assert "openalex HARVEST  harvesting  plan " in shown.text
            assert "items/s" in shown.text
            assert "the same command goes on from here" in " ".join(shown.text.split())
        finally:
            shown.close()


LOCKED = """\
source: locked
name: Locked
credentials: {key: {type: API_KEY, secret: {env: NO_SUCH_KEY}}}
endpoints:
  list:
    http: {baseUrl: "http://127.0.0.1:9", allowHttp: true, queryTemplate: {since: "${window.from}", page: "${page.no}"}}
    auth: {type: API_KEY, name: X-Key, credentialRef: key, required: true}
    pagination: {type: PAGE, base1: true}
    window: {supportsUpdatedSince: true, watermarkKey: updated_at, initial: 1d}
    response: {itemsPath: $.items, idPath: $.id, updatedAtPath: $.updated}
"""


class TestASourceThatCannotBeAsked:
    def test_a_missing_key_ends_the_run_at_once_with_what_to_do(self, home, tmp_path):
        (tmp_path / "locked.yaml").write_text(LOCKED)
        applied = run(home, "apply", str(tmp_path / "locked.yaml"), "--yes")
        assert applied.returncode == 0, applied.stderr
        failed = run(home, "run", "locked")
        assert failed.returncode == 1, failed.stderr
        assert "CREDENTIAL_MISSING" in failed.stderr
        assert "evidence" not in failed.stderr + failed.stdout
        assert "run the same command again" in failed.stdout
        shown = run(home, "status", "locked").stdout
        assert "✗ locked/list HARVEST" in shown
        assert "CREDENTIAL_MISSING" in shown


class TestHistoryAndRefreshes:
    def test_old_windows_are_fetched_towards_the_past(self, home):
        old = run(home, "backfill", "europepmc", "--standin", "--since", "20d", "--records", "800", "--json")
        assert old.returncode == 0, old.stderr
        assert json.loads(old.stdout)["items"]["new"] == 800

    def test_known_records_are_fetched_again_by_id(self, home, stopped_and_gone_on):
        some = sorted(stored(home, "crossref"))[:3]
        named = run(home, "update", "crossref", *some, "--standin", "--records", str(RECORDS), "--json")
        assert named.returncode == 0, named.stderr
        assert json.loads(named.stdout)["items"] == {"new": 0, "changed": 0, "unchanged": 3, "quarantined": 0}

    def test_a_look_ahead_writes_nothing(self, home):
        ahead = run(home, "plan", "doaj", "--dry-run", "--standin", "--records", "800",
                    "--since", "2001-01-01", "--until", "2001-01-02")  # fmt: skip
        assert ahead.returncode == 0, ahead.stderr
        assert "2001-01-01 18:00 – 2001-01-02 00:00" in ahead.stdout
        assert "at 50 a second" in ahead.stdout
        with psycopg.connect(EmbeddedPostgres(home).url) as connection:
            left = connection.execute("select count(*) from ing_plan where provenance_code = 'doaj'").fetchone()
        assert left == (0,)
