"""What the commands of a harvest read from the command line, and what they say of where it stands."""

import io
import socket
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from penstock import cli
from penstock.cli.harvest.asking import read_moment, read_params
from penstock.cli.harvest.carrying import Wish, conclude
from penstock.cli.harvest.rehearsal import STANDIN_GONE, first_day, is_local, port_for
from penstock.cli.harvest.run_screen import _picture, items_line, notes, seconds_left, trouble_line
from penstock.cli.harvest.running import Ended, Standing
from penstock.cli.screen import Refusal
from penstock.harvest.overview import Progress, Trouble

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def standing(**known) -> Standing:
    own = {name: known.pop(name) for name in ("seconds", "waited", "done_before", "me") if name in known}
    return Standing(progress=Progress(now=NOW, **known), **own)


class TestReading:
    @pytest.mark.parametrize(
        ("text", "moment"),
        [
            ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
            ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
            ("7d", NOW - timedelta(days=7)),
            ("PT1H", NOW - timedelta(hours=1)),
        ],
    )
    def test_times_are_dates_moments_or_so_long_ago(self, text, moment):
        assert read_moment(text, "--since", NOW) == moment

    @pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "", "0001-01-01T00:00:00+14:00"])
    def test_other_times_are_refused(self, text):
        with pytest.raises(Refusal, match="--since"):
            read_moment(text, "--since")

    def test_parameters_are_pairs(self):
        assert read_params(["a=b=c", "d="]) == {"a": "b=c", "d": ""}
        for wrong in (["a"], ["=b"], ["a=1", "a=2"], ["a=\udcff"]):
            with pytest.raises(Refusal, match="--param"):
                read_params(wrong)

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("update", "x", "--signals", "--expression"), "Choose one"),
            (("update", "x", "--stale", "soon"), "write 30d"),
            (("update", "x", "a\udcffb"), "ID a?b is not UTF-8 text"),
            (("update", "x", "--ids", "/nowhere/ids"), "cannot be read"),
            (("backfill", "x", "--since", "7d", "--standin", "--no-follow"), "leave --no-follow away"),
            (("plan", "x", "--standin"), "add --dry-run"),
        ],
    )
    def test_what_does_not_go_together_is_refused_before_anything_is_opened(self, arguments, said, capsys):
        with pytest.raises(SystemExit) as left:
            cli.main(("harvest", *arguments), roles={})
        assert left.value.code == 1
        assert said in " ".join(capsys.readouterr().err.split())


class TestTheStandIn:
    def test_its_records_begin_on_the_same_day_however_often_it_is_run(self):
        assert first_day(NOW) == first_day(NOW + timedelta(hours=11)) == datetime(2026, 2, 19, tzinfo=UTC)

    @pytest.mark.parametrize(
        ("url", "answer"),
        [
            ("http://127.0.0.1:1/v1", True),
            ("http://localhost/x", True),
            ("https://api.example.org", False),
            ("", False),
        ],
    )
    def test_it_is_known_by_its_address(self, url, answer):
        assert is_local(url) is answer

    def test_its_port_is_that_of_the_last_run_if_it_can_be(self):
        with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
            port, free = taken.getsockname()[1], other.getsockname()[1]
            other.close()
            assert port_for(f"http://127.0.0.1:{free}/v1", preferred=port, is_fixed=True) == free
            assert port_for(None, preferred=free, is_fixed=False) == free
            assert port_for(None, preferred=port, is_fixed=False) == 0
            with pytest.raises(Refusal, match="Tasks of an earlier run"):
                port_for(f"http://127.0.0.1:{port}/v1", preferred=free, is_fixed=True)


class TestWhereItStands:
    def test_the_time_left_follows_the_estimates_where_there_are_any(self):
        assert seconds_left(standing(tasks=4, done=2, inserted=100, expected=300, seconds=10)) == 30
        assert seconds_left(standing(tasks=6, done=4, done_before=2, seconds=10)) == 10
        assert seconds_left(standing(tasks=6, done=0, seconds=10)) is None
        assert seconds_left(standing(tasks=6, done=6, seconds=10)) is None

    def test_it_says_who_holds_tasks_and_when_a_dead_one_loses_them(self):
        (said,) = notes(
            standing(tasks=2, holders={"cli:a:1": 2, "me": 1}, held_until=NOW + timedelta(seconds=40), me="me")
        )
        assert said == "2 tasks are held by cli:a:1; if it has died, they come free within 40 s"

    def test_it_says_for_how_long_and_why_a_source_rests(self):
        resting = standing(resting_until=NOW + timedelta(minutes=5), resting_reason="rate", waited=12.0)
        assert notes(resting) == [
            "requests have waited 12 s in all for the rate limit", "resting for another 5 min: the rate limit",
        ]  # fmt: skip

    def test_a_trouble_says_what_follows_from_it(self):
        trouble = Trouble(1, 1, "SOURCE_UNAVAILABLE", "CONNECT_FAILED", "QUEUED", NOW, NOW, NOW)
        assert trouble_line(trouble) == (
            "2026-03-01 12:00: The source does not answer properly right now (SOURCE_UNAVAILABLE, CONNECT_FAILED);"
            " it is tried again"
        )

    def test_a_terminal_of_80_columns_shows_windows_rate_and_time_left(self):
        busy = standing(
            tasks=1000, done=420, requests=10_540, inserted=1_000_000, expected=900_000, seconds=400.0, waited=90.0
        )
        shown = io.StringIO()
        Console(file=shown, width=80).print(_picture("openalex HARVEST", busy))
        for part in ("420/1,000 windows", "2,500 items/s", "ETA 6 min", "1,000,000 new", "waited 90 s"):
            assert part in shown.getvalue()

    def test_one_is_not_many(self):
        line = items_line(standing(requests=1, inserted=1))
        assert line == "1 item: 1 new, 0 changed, 0 unchanged, 0 quarantined; 1 request"

    def test_a_stand_in_that_another_command_has_stopped_is_not_waited_for(self, capsys):
        ended = Ended(standing(tasks=2), is_interrupted=False, waits_for=STANDIN_GONE)
        conclude(Wish("crossref", None, standin=10), ended)
        assert ended.exit_code == 1
        assert "Run the same command again" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("failed", "interrupted", "waits", "code"),
        [(0, False, None, 0), (1, False, None, 1), (0, True, None, 130), (1, True, None, 130), (0, False, "quota", 1)],
    )
    def test_the_exit_code_tells_how_it_ended(self, failed, interrupted, waits, code):
        assert Ended(standing(failed=failed), interrupted, waits_for=waits).exit_code == code
