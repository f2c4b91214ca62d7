"""`penstock harvest sources`, `apply` and `schema`, as a person or a program meets them."""

import json
import sys
from pathlib import Path

import psycopg
import pytest
from tests.support.programs import environment
from tests.support.sources import FITTING as WORKS
from tests.support.terminals import Terminal

from penstock import cli

_PLAN = """
insert into ing_plan (schedule_instance_id, provenance_code, endpoint_name, operation_code, plan_strategy_code,
  expr_proto_hash, expr_proto_snapshot, spec_fingerprint, status_code, cursor_key, cursor_type_code,
  namespace_scope_code, namespace_key, direction_code, priority)
values (1, 'works', 'list', 'HARVEST', 'TIME', 'h', %s::jsonb, 'f', 'READY', 'updated', 'TIME',
  'EXPR', 'k', 'FORWARD', 1)
"""


@pytest.fixture
def place(tmp_path, monkeypatch, database_url) -> Path:
    """A directory with a source file, beside the tests' database."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_DATABASE_URL", database_url)
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "works.yaml").write_text(WORKS)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Exit code, stdout and stderr of a command."""

    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            cli.main(("harvest", *arguments), roles={})
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err

    return command


def versions(url: str) -> list[tuple]:
    with psycopg.connect(url) as connection:
        return connection.execute("select provenance_code, version from reg_provenance order by 1").fetchall()


def state(run) -> dict[str | None, str]:
    return {each["source"]: each["state"] for each in json.loads(run("sources", "--json")[1])}


class TestApplying:
    def test_all_files_are_shown_and_applied_once(self, place, run, database_url):
        code, out, _ = run("apply", "--all", "--yes")
        assert code == 0
        assert "works (new)" in out
        assert "endpoints.list.pagination.pageSize" in out
        assert "works is now at version 1." in out
        code, out, _ = run("apply", "--all", "--yes")
        assert (code, out.strip()) == (0, "works (v1): nothing changes")
        assert versions(database_url) == [("works", 1)]

    def test_a_dry_run_shows_what_would_change_and_changes_nothing(self, place, run, database_url):
        code, out, _ = run("apply", "sources/works.yaml", "--dry-run")
        assert code == 0
        assert "Nothing was applied" in out
        assert versions(database_url) == []

    @pytest.mark.parametrize(
        ("asked_at", "is_refused"), [("http://127.0.0.1:18700", True), ("https://a.example", False)]
    )
    def test_no_schedule_beside_records_of_a_stand_in(self, place, run, database_url, asked_at, is_refused):
        with psycopg.connect(database_url) as connection:
            connection.execute(_PLAN, (json.dumps({"http": {"baseUrl": asked_at}}),))
        file = place / "sources" / "works.yaml"
        file.write_text(WORKS.partition("schedules:")[0])
        assert run("apply", "--all", "--yes")[0] == 0
        file.write_text(WORKS)
        code, _, said = run("apply", "--all", "--yes")
        assert (code, "made-up records of the stand-in of works" in said) == (int(is_refused), is_refused)
        assert versions(database_url) == [("works", 1 if is_refused else 2)]

    def test_programs_get_the_changes(self, place, run):
        run("apply", "--all", "--yes")
        file = place / "sources" / "works.yaml"
        file.write_text(WORKS.replace("pageSize: 1000", "pageSize: 5"))
        code, out, _ = run("apply", "--all", "--yes", "--json")
        change = {"path": "endpoints.list.pagination.pageSize", "before": 1000, "after": 5}
        assert (code, json.loads(out)) == (
            0, {"dry_run": False, "sources": [{"source": "works", "version": 2, "changes": [change]}]},
        )  # fmt: skip

    def test_if_one_file_is_wrong_none_is_applied_and_all_that_is_wrong_is_told(self, place, run, database_url):
        bad = place / "sources" / "bad.yaml"
        bad.write_text("source: bad\nname: Bad\nendpoints:\n  e: {rol: x}\ntitel: y\n")
        code, _, err = run("apply", "--all", "--yes")
        assert code == 1
        first, second, last = err.splitlines()
        assert first == (
            "sources/bad.yaml:4:7 endpoints.e.rol: there is no key rol here; did you mean role? (key.unknown)"
        )
        assert second.startswith("sources/bad.yaml:5:1 titel: there is no key titel here; the keys are credentials,")
        assert last == "2 problems; nothing was applied."
        assert versions(database_url) == []
        code, out, _ = run("apply", "--all", "--yes", "--json")
        assert (code, [each["line"] for each in json.loads(out)["problems"]]) == (1, [4, 5])

    def test_problems_are_told_in_chinese_too(self, place, run, monkeypatch):
        monkeypatch.setenv("LANG", "zh_CN.UTF-8")
        (place / "bad.yaml").write_text("nam: x\n")
        code, _, err = run("apply", "bad.yaml", "--yes")
        assert code == 1
        assert "是否想写 name？" in err

    def test_one_source_in_two_files_is_refused(self, place, run):
        (place / "sources" / "again.yml").write_text(WORKS)
        code, _, err = run("apply", "--all", "--yes")
        assert code == 1
        assert "sources/again.yml describes the source works too (source.twice)" in err

    def test_settings_that_do_not_fit_together_are_told_with_file_line_key_and_rule(self, place, run, database_url):
        file = place / "sources" / "works.yaml"
        file.write_text(WORKS.replace("watermarkKey: updated_at, ", ""))
        for more in ("--dry-run", "--yes"):
            code, _, err = run("apply", "--all", more)
            assert code == 1
            first, last = err.splitlines()
            assert first == (
                "sources/works.yaml:29 endpoints.list.window.watermarkKey: say which time moves forward,"
                " e.g. updated_at (rule 3, window)"
            )
            assert last == "1 problem; nothing was applied."
        assert versions(database_url) == []

    def test_a_cron_line_that_never_comes_due_is_told_with_its_line(self, place, run):
        file = place / "sources" / "works.yaml"
        file.write_text(WORKS.replace("30 2 * * *", "30 25 * * *"))
        code, _, err = run("apply", "--all", "--yes")
        assert code == 1
        assert "sources/works.yaml:5" in err.splitlines()[0]
        assert "cron" in err.splitlines()[0]

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("--yes",), "Which files?"),
            (("nothing.yaml", "--yes"), "nothing.yaml cannot be read"),
            (("sources", "--yes"), "sources cannot be read"),
            (("sources/works.yaml", "--all"), "not both"),
            (("sources/works.yaml",), "say --yes or --dry-run"),
            (("sources/works.yaml", "--json"), "say --yes or --dry-run"),
        ],
    )
    def test_what_cannot_be_done_is_said(self, place, run, arguments, said):
        code, _, err = run("apply", *arguments)
        assert code == 1
        assert said in err

    def test_an_empty_directory_is_said(self, place, run):
        (place / "sources" / "works.yaml").unlink()
        code, _, err = run("apply", "--all", "--yes")
        assert code == 1
        assert "There is no source file in sources" in err

    @pytest.mark.parametrize(("answer", "left"), [("y\n", [("works", 1)]), ("n\n", [])])
    def test_a_person_is_asked(self, place, database_url, answer, left):
        command = [sys.executable, "-m", "penstock", "harvest", "apply", "sources/works.yaml"]
        terminal = Terminal(command, environment(PENSTOCK_DATABASE_URL=database_url))
        try:
            terminal.until("Apply?")
            terminal.type(answer)
            assert terminal.end() == (0 if left else 1)
        finally:
            terminal.close()
        assert versions(database_url) == left


class TestListing:
    def test_files_and_what_is_applied_are_compared(self, place, run):
        assert state(run) == {"works": "not applied"}
        run("apply", "--all", "--yes")
        assert state(run) == {"works": "applied"}
        file = place / "sources" / "works.yaml"
        file.write_text(WORKS.replace("pageSize: 1000", "pageSize: 5"))
        assert state(run) == {"works": "differs"}
        file.write_text("nam: x\n")
        assert state(run) == {"works": "no file", None: "not valid"}
        code, out, _ = run("sources")
        assert code == 0
        *_, refused, named = out.splitlines()
        assert (refused.strip(), named.strip()) == ("not valid", "sources/works.yaml")
        file.unlink()
        assert state(run) == {"works": "no file"}

    def test_people_see_a_table(self, place, run):
        run("apply", "--all", "--yes")
        code, out, _ = run("sources")
        assert code == 0
        heads, _, *lines = out.splitlines()
        assert heads.split() == ["Source", "Endpoints", "Schedule", "State"]
        first, second = (" ".join(line.split()) for line in lines[:2])
        assert first.startswith("works list HARVEST every 10m applied, version 1")
        assert second == "Works one UPDATE 30 2 * * *"

    def test_nothing_at_all_is_said(self, place, run):
        (place / "sources" / "works.yaml").unlink()
        assert "No sources." in run("sources")[1]


class TestSchema:
    def test_it_is_printed_as_it_is_published(self, place, run):
        code, out, _ = run("schema")
        published = Path(cli.__file__).parents[3] / "docs" / "source.schema.json"
        assert (code, out) == (0, published.read_text())
