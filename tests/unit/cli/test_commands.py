"""Commands as a person or a program meets them: sentences instead of tracebacks, JSON that can be read."""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock
from penstock.cli.screen import Refusal, language
from penstock.cli.token import duration
from penstock.embedded import Home
from penstock.embedded.redis_programs import best_program
from penstock.kernel.clock import SystemClock
from penstock.kernel.errors import Language
from penstock.kernel.identity import Caller, Identity, IdentitySettings, Role

COMMANDS = (
    "up",
    "upload",
    "jobs",
    "job",
    "cancel",
    "requeue",
    "etl",
    "rules",
    "harvest",
    "serve",
    "worker",
    "executor",
    "scheduler",
    "doctor",
    "config",
    "token",
    "sign-in",
    "migrate",
    "bench",
    "version",
)


@pytest.fixture
def started():
    """The command as a process of its own, in the present directory."""

    def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "penstock", *arguments],
            env={**os.environ, "PYTHONPATH": str(Path(penstock.__file__).parents[1]), **environment},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    return command


def write_bench(name: str, code: str) -> None:
    Path("bench").mkdir()
    Path("bench", f"{name}.py").write_text(f"{code}")


class TestHelp:
    @pytest.mark.parametrize("name", COMMANDS)
    def test_every_command_has_an_example(self, run, name):
        code, said, _ = run(name, "--help")
        assert code == 0
        assert f"penstock {name}" in said.partition("Example:")[2]

    def test_all_commands_are_listed(self, run):
        said = run("--help")[1]
        assert all(re.search(rf"│ {name}\b", said) for name in COMMANDS)


class TestLanguage:
    @pytest.mark.parametrize(
        ("environ", "spoken"),
        [
            ({}, Language.EN),
            ({"LANG": "zh_CN.UTF-8"}, Language.ZH),
            ({"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, Language.EN),
            ({"LANG": "de_DE.UTF-8", "LC_ALL": "zh_TW"}, Language.ZH),
            ({"LANG": "", "LC_ALL": ""}, Language.EN),
        ],
    )
    def test_it_is_the_terminals(self, environ, spoken):
        assert language(environ) is spoken

    def test_refusals_are_said_in_it(self, run, monkeypatch):
        monkeypatch.setenv("LANG", "zh_CN.UTF-8")
        assert "没有可用的数据库" in run("migrate")[2]


class TestFailing:
    def test_a_wrong_setting_is_named_with_its_origin(self, run, monkeypatch):
        monkeypatch.setenv("PENSTOCK_PORT", "many")
        for command in ("config", "up", "serve"):
            code, said, error = run(command)
            assert code == 1
            assert "PENSTOCK_PORT from the environment is 'many'" in error
            assert "Traceback" not in said + error

    def test_a_misspelt_setting_in_the_file_is_named(self, run):
        Path("penstock.toml").write_text("PENSTOCK_PROT = 9000\n")
        code, _, error = run("config")
        assert code == 1
        assert "there is no setting PENSTOCK_PROT; did you mean PENSTOCK_PORT?" in error

    def test_the_unexpected_is_one_sentence_and_a_traceback_only_on_request(self, started):
        write_bench("broken", "\ndef run():\n    return 1 // 0\n")
        done = started("bench", "broken")
        assert done.returncode == 1
        assert "PENSTOCK_DEBUG=1" in done.stderr
        assert "ZeroDivisionError" in done.stderr
        assert "Traceback" not in done.stderr
        assert "Traceback" in started("bench", "broken", PENSTOCK_DEBUG="1").stderr

    @pytest.mark.parametrize("arguments", [("up", "--port", "70000"), ("up", "--port", "-1"), ("nonsense",)])
    def test_a_wrong_option_is_a_usage_error(self, run, arguments):
        assert run(*arguments)[0] == 2


class TestConfig:
    def test_it_shows_value_origin_and_meaning_and_masks_secrets(self, run, monkeypatch):
        monkeypatch.setenv("PENSTOCK_JWT_SECRET", "not-for-anyone-to-see-0123456789abcdef")
        Path("penstock.toml").write_text("PENSTOCK_PORT = 9000\n")
        code, said, _ = run("config", "--json")
        assert code == 0
        assert "not-for-anyone" not in said
        rows = {row["name"]: row for row in json.loads(said)}
        assert rows["PENSTOCK_PORT"] == {
            "name": "PENSTOCK_PORT", "value": "9000", "origin": "penstock.toml", "meaning": "HTTP port",
        }  # fmt: skip
        assert (rows["PENSTOCK_JWT_SECRET"]["value"], rows["PENSTOCK_JWT_SECRET"]["origin"]) == (
            "********",
            "environment",
        )
        assert all(row["meaning"] for row in rows.values())

    def test_it_works_before_the_first_start(self, run):
        code, said, _ = run("config")
        assert code == 0
        assert "PENSTOCK_GRPC_PORT = 8001" in said


class TestToken:
    def test_without_a_secret_it_says_what_to_do(self, run):
        code, _, error = run("token", "--role", "admin")
        assert code == 1
        assert "run `penstock up`" in error

    def test_it_is_signed_with_the_secret_of_the_data_directory(self, run, tmp_path):
        secret = Home(tmp_path).secret()
        code, said, _ = run(
            "token", "--role", "operator", "--merchant", "m-1", "--user", "ann", "--data", str(tmp_path)
        )
        assert code == 0
        identity = Identity(IdentitySettings(secret=secret), SystemClock())
        assert asyncio.run(identity.verify(said.strip())) == Caller("ann", "m-1", Role.OPERATOR)

    def test_it_may_list_merchants_for_which_its_bearer_creates_jobs(self, run, monkeypatch):
        monkeypatch.setenv("PENSTOCK_JWT_SECRET", "s" * 40)
        code, said, _ = run("token", "--role", "uploader", "--merchant", "hub", "--act-for", "m-1, m-2")
        assert code == 0
        identity = Identity(IdentitySettings(secret="s" * 40), SystemClock())
        caller = asyncio.run(identity.verify(said.strip()))
        assert caller == Caller("script", "hub", Role.UPLOADER, act_for=("m-1", "m-2"))

    def test_a_name_that_no_server_would_take_is_refused(self, run, monkeypatch):
        monkeypatch.setenv("PENSTOCK_JWT_SECRET", "s" * 40)
        assert run("token", "--role", "uploader", "--act-for", "m 1")[0] == 1
        assert run("token", "--role", "admin", "--user", "two words")[0] == 1
        assert run("token", "--role", "king")[0] == 2

    @given(st.integers(1, 366 * 24 * 60))
    def test_durations_in_all_units_agree(self, minutes):
        assert duration(f"{minutes}m") == duration(f"{minutes * 60}s") == timedelta(minutes=minutes)

    @pytest.mark.parametrize("text", ["", "5", "h", "-1h", "1.5h", "0s", "367d", "1 h", "9999999999s", "١h"])
    def test_a_wrong_duration_is_refused(self, text):
        with pytest.raises(Refusal, match="is not a duration"):
            duration(text)


class TestBench:
    def test_outside_a_clone_it_says_where_to_run(self, started, tmp_path):
        installed = tmp_path / "site-packages"
        shutil.copytree(Path(penstock.__file__).parent, installed / "penstock")
        done = started("bench", PYTHONPATH=str(installed))
        assert done.returncode == 1
        assert "not part of the installed package" in done.stderr

    def test_an_unknown_name_lists_the_known(self, run):
        code, _, error = run("bench", "nonsense")
        assert code == 1
        assert "leases" in error
        assert "servers" not in error

    def test_it_prints_json_and_a_table(self, started):
        result = {"name": "quick", "ratios": {"vs_raw": 0.5}, "figures": {"rows": 1000}}
        write_bench("quick", f"def nothing(): ...\n\ndef run():\n    return {result!r}\n")
        assert json.loads(started("bench", "quick", "--json").stdout) == result
        assert "0.50 ×" in started("bench", "quick").stdout


class TestDoctor:
    def test_on_a_machine_where_nothing_runs_it_finds_nothing_wrong(self, run, monkeypatch):
        monkeypatch.setenv("PENSTOCK_PORT", str(_free()))
        monkeypatch.setenv("PENSTOCK_GRPC_PORT", str(_free()))
        code, said, _ = run("doctor", "--json", "--data", "/tmp/penstock-never-made")
        found = {check["name"]: check["level"] for check in json.loads(said)["checks"]}
        assert code == 0, said
        assert found["penstock up"] == found["Database"] == "skip"
        assert found["PostgreSQL program"] == found["Disk"] == "ok"
        assert found["Redis program"] == ("ok" if best_program().is_mended else "warn")

    def test_a_taken_port_is_a_failure_with_a_remedy(self, run, monkeypatch):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            monkeypatch.setenv("PENSTOCK_PORT", str(holder.getsockname()[1]))
            code, said, _ = run("doctor")
        assert code == 1
        assert "choose another with --port" in said

    def test_servers_that_do_not_answer_are_failures(self, run, monkeypatch):
        monkeypatch.setenv("PENSTOCK_DATABASE_URL", "postgresql://u:hidden@127.0.0.1:1/x")
        monkeypatch.setenv("PENSTOCK_REDIS_URL", "redis://:hidden@127.0.0.1:1")
        monkeypatch.setenv("PENSTOCK_STORE_URL", "ftp://nowhere")
        code, said, _ = run("doctor", "--json")
        assert code == 1
        assert "hidden" not in said
        failed = {check["name"] for check in json.loads(said)["checks"] if check["level"] == "fail"}
        assert {"Database", "Redis", "Object store", "Clock"} <= failed


def _free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


class TestVersion:
    def test_the_option_that_people_try_first(self, run):
        code, said, _ = run("--version")
        assert (code, said.split()[:2]) == (0, ["Penstock", penstock.__version__])

    def test_it_is_readable_by_programs(self, run):
        assert json.loads(run("version", "--json")[1])["penstock"] == penstock.__version__
