"""Lists of jobs, one job, and orders to the server: what is asked and what is shown."""

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.answering import Answering, Asked, Said

from penstock.cli.jobs import age, moment
from penstock.cli.screen import Refusal

ID = "3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11"


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "t")


def summary(number: int, **more: object) -> dict[str, object]:
    return {"job_id": f"3f0c8a52-1f0e-4b59-9a35-{number:012}", "source_file": f"file-{number}.pdf",
            "status": "UPLOADED", "user_status": "processing", "progress_percent": 0, "total_pages": 3,
            "merchant_id": "m-1", "created_at": "2026-01-01T00:00:00Z", **more}  # fmt: skip


def parts(total: int):
    """A server with so many jobs, given out as asked."""

    def answer(asked: Asked) -> Said:
        query = {name: values[0] for name, values in parse_qs(urlsplit(asked.path).query).items()}
        start, limit = int(query.get("cursor", 0)), int(query["limit"])
        end = min(total, start + limit)
        return Said(
            body={"jobs": [summary(n) for n in range(start, end)], "next_cursor": str(end) if end < total else None}
        )

    return answer


class TestLists:
    @pytest.mark.parametrize(
        ("total", "options", "shown"), [(5, (), 5), (450, ("--limit", "250"), 250), (450, ("--all",), 450)]
    )
    def test_as_many_are_gathered_as_were_asked_for(self, run, total, options, shown):
        with Answering(parts(total)) as server:
            code, out, _ = run("jobs", *options, "--json", "--server", server.address)
        assert code == 0
        assert [job["job_id"][-3:] for job in json.loads(out)] == [f"{n:03}" for n in range(shown)]

    def test_more_than_are_shown_are_mentioned(self, run):
        with Answering(parts(30)) as server:
            assert "There are more" in run("jobs", "--server", server.address)[1]
            assert "There are more" not in run("jobs", "--all", "--server", server.address)[1]

    def test_what_is_wished_for_is_asked(self, run):
        options = ("--status", "orphaned", "--status", "PROCESSING", "--user-status", "failed", "--since", "2026-01-31",
                   "--category", "furniture", "--search", "spring & more")  # fmt: skip
        with Answering(parts(0)) as server:
            code, out, _ = run("jobs", *options, "--server", server.address)
        assert (code, out) == (0, "No jobs.\n")
        asked = parse_qs(urlsplit(server.asked[0].path).query)
        assert asked["status"] == ["ORPHANED", "PROCESSING"]
        assert (asked["user_status"], asked["q"]) == (["failed"], ["spring & more"])
        assert datetime.fromisoformat(asked["created_from"][0]) == datetime(2026, 1, 31).astimezone()

    @pytest.mark.parametrize("width", ["80", "140"])
    def test_long_names_fold_and_nothing_is_cut(self, run, monkeypatch, width):
        monkeypatch.setenv("COLUMNS", width)
        row = summary(1, source_file="x" * 60 + "[red]\x1b[31m.pdf", status="PARTIAL_IMPORTED", progress_percent=100)
        with Answering(lambda _: Said(body={"jobs": [row], "next_cursor": None})) as server:
            out = run("jobs", "--server", server.address)[1]
        assert out.count("x") == 60
        assert "\x1b" not in out
        assert max(map(len, out.splitlines())) <= int(width)


class TestTimes:
    def test_durations_count_back_from_now(self):
        assert abs(datetime.now(UTC) - timedelta(hours=12) - moment("12h")) < timedelta(seconds=10)

    @pytest.mark.parametrize("text", ["", "yesterday", "12x", "2026-13-01", "h", "99999d"])
    def test_what_is_no_time_is_refused(self, text):
        with pytest.raises(Refusal, match="--since"):
            moment(text)

    def test_ages_are_rough(self):
        ago = [age((datetime.now(UTC) - timedelta(seconds=s)).isoformat()) for s in (5, 90, 7300, 200_000)]
        assert ago == ["5 s", "1 min", "2 h", "2 d"]


class TestOrders:
    def test_cancel_asks_once_and_says_what_now(self, run):
        with Answering(lambda _: Said(body={"job_id": ID, "action_hint": "Upload it again"})) as server:
            code, out, _ = run("cancel", ID.upper(), "--server", server.address)
        assert (code, out) == (0, f"✓ Cancelled: {ID}\n  Upload it again\n")
        assert [(asked.method, asked.path) for asked in server.asked] == [("POST", f"/api/v1/jobs/{ID}/cancel")]

    @pytest.mark.parametrize(
        ("options", "body"),
        [((), {"force": False}), (("--worker", "w-1", "--force"), {"force": True, "target_worker": "w-1"})],
    )
    def test_requeue_says_who_goes_on_and_where(self, run, options, body):
        given = {"job_id": ID, "worker_id": "w-1", "resume_from": 120, "requeues_today": 2}
        with Answering(lambda _: Said(body=given)) as server:
            code, out, _ = run("requeue", ID, *options, "--server", server.address)
        assert code == 0
        assert "w-1 goes on after page 120; requeued 2 times within 24 hours." in out
        assert json.loads(server.asked[0].body) == body

    def test_a_refusal_is_said_with_what_to_do(self, run):
        refusal = {"code": "REQUEUE_LIMIT", "message": "Too often", "remedy": "Look into why it fails", "details": {}}
        with Answering(lambda _: Said(429, refusal)) as server:
            code, _, error = run("requeue", ID, "--server", server.address)
        assert code == 1
        assert "Too often (REQUEUE_LIMIT). Look into why it fails." in error
