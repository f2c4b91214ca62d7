"""How a command finds its server and says who it is, and what it says when it is not let in."""

import asyncio
import io
from pathlib import Path

import pytest
from tests.support.answering import Answering, Asked, Said
from tests.support.edge import free_port

from penstock.embedded import Home
from penstock.kernel.clock import SystemClock
from penstock.kernel.identity import Caller, Identity, IdentitySettings, Role

NO_JOBS = {"jobs": [], "next_cursor": None}


def welcome(_: Asked) -> Said:
    return Said(body=NO_JOBS)


def stranger(_: Asked) -> Said:
    return Said(401, {"code": "TOKEN_INVALID", "message": "The token is not valid", "remedy": "Sign in again"})


class TestFindingTheServer:
    def test_it_may_be_named_by_option_environment_or_file(self, run, monkeypatch):
        with Answering(welcome) as here:
            Path("token").write_text("from-token-file\n")
            assert run("jobs", "--server", f"{here.address}/", "--token-file", "token")[0] == 0
            Path("penstock.toml").write_text(f'PENSTOCK_SERVER = "{here.address}"\nPENSTOCK_TOKEN = "from-file"\n')
            assert run("jobs")[0] == 0
            monkeypatch.setenv("PENSTOCK_TOKEN", "from-env")
            assert run("jobs")[0] == 0
        assert [asked.headers["authorization"] for asked in here.asked] == [
            "Bearer from-token-file", "Bearer from-file", "Bearer from-env",
        ]  # fmt: skip

    def test_without_a_name_it_is_the_port_of_this_machine(self, run, monkeypatch):
        with Answering(welcome) as here:
            monkeypatch.setenv("PENSTOCK_PORT", here.address.rpartition(":")[2])
            monkeypatch.setenv("PENSTOCK_TOKEN", "t")
            assert run("jobs")[0] == 0

    def test_a_server_that_is_not_there_is_said_in_one_sentence(self, run, monkeypatch):
        monkeypatch.setenv("PENSTOCK_TOKEN", "t")
        code, said, error = run("jobs", "--server", f"http://127.0.0.1:{free_port()}")
        assert code == 1
        assert "does not answer" in error
        assert "penstock up" in error
        assert "Traceback" not in said + error

    @pytest.mark.parametrize("address", ["ftp://x", "localhost:8000", "http://"])
    def test_what_is_no_address_is_refused(self, run, monkeypatch, address):
        monkeypatch.setenv("PENSTOCK_TOKEN", "t")
        code, _, error = run("jobs", "--server", address)
        assert code == 1
        assert "Something unexpected" not in error

    def test_this_machine_is_not_asked_through_a_proxy(self, run, monkeypatch):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
        monkeypatch.setenv("PENSTOCK_TOKEN", "t")
        with Answering(welcome) as here:
            assert run("jobs", "--server", here.address)[0] == 0

    def test_the_settings_are_known_ones(self, run, monkeypatch):
        monkeypatch.setenv("PENSTOCK_SERVER", "http://example.com")
        monkeypatch.setenv("PENSTOCK_TOKEN", "not-for-anyone")
        code, said, _ = run("config")
        assert code == 0
        assert "misspelt" not in said
        assert "not-for-anyone" not in said


class TestTokens:
    def test_one_is_made_from_the_data_directorys_secret(self, run, tmp_path):
        secret = Home(tmp_path / "data").secret() if (tmp_path / "data").mkdir() is None else ""
        with Answering(welcome) as here:
            options = ("--data", str(tmp_path / "data"), "--role", "uploader", "--merchant", "m-7")
            assert run("jobs", "--server", here.address, *options)[0] == 0
        token = here.asked[0].headers["authorization"].removeprefix("Bearer ")
        identity = Identity(IdentitySettings(secret=secret), SystemClock())
        assert asyncio.run(identity.verify(token)) == Caller("script", "m-7", Role.UPLOADER)

    def test_one_that_is_made_here_does_not_leave_this_machine(self, run, tmp_path):
        Home(tmp_path).secret()
        code, _, error = run("jobs", "--server", "http://192.0.2.1", "--data", str(tmp_path))
        assert code == 1
        assert "No token for http://192.0.2.1" in error
        assert "--token-file" in error

    @pytest.mark.parametrize("command", ["jobs", "job", "upload", "send", "cancel", "requeue"])
    def test_no_command_takes_one_on_its_line_where_other_users_see_it(self, run, command):
        assert "--token " not in run(command, "--help")[1]
        code, _, error = run(command, "--token", "secret", "x")
        assert code == 2
        assert "No such option" in error

    def test_a_file_is_read_or_said_to_be_unreadable(self, run, tmp_path):
        (tmp_path / "empty").write_text(" \n")
        for name in ("missing", "empty", "."):
            code, _, error = run("jobs", "--server", "http://127.0.0.1:9", "--token-file", str(tmp_path / name))
            assert code == 1
            assert "--token-file" in error

    def test_a_file_counts_more_than_the_environment(self, run, monkeypatch):
        monkeypatch.setenv("PENSTOCK_TOKEN", "from-env")
        Path("token").write_text("from-file")
        with Answering(welcome) as here:
            assert run("jobs", "--server", here.address, "--token-file", "token")[0] == 0
        assert here.asked[0].headers["authorization"] == "Bearer from-file"

    def test_a_minus_reads_it_from_standard_input(self, run, monkeypatch):
        monkeypatch.setattr("sys.stdin", io.StringIO("piped\n"))
        with Answering(welcome) as here:
            assert run("jobs", "--server", here.address, "--token-file", "-")[0] == 0
        assert here.asked[0].headers["authorization"] == "Bearer piped"

    def test_without_a_secret_it_says_what_to_do(self, run):
        code, _, error = run("jobs")
        assert code == 1
        assert "no secret to sign with" in error

    def test_a_given_one_that_is_refused_may_have_expired(self, run, monkeypatch):
        monkeypatch.setenv("PENSTOCK_TOKEN", "old")
        with Answering(stranger) as here:
            code, _, error = run("jobs", "--server", here.address)
        assert code == 1
        assert "expired" in error
        assert "old" not in error.replace("older", "")

    def test_one_made_here_that_is_refused_has_another_secret(self, run, tmp_path):
        Home(tmp_path).secret()
        with Answering(stranger) as here:
            code, _, error = run("jobs", "--server", here.address, "--data", str(tmp_path))
        assert code == 1
        assert "another secret" in error


class TestOddAnswers:
    @pytest.mark.parametrize(
        "said",
        [
            Said(502, b"<html>bad gateway</html>"),
            Said(404, b""),
            Said(302, b"", {"Location": "http://192.0.2.1/"}),
            Said(400, ["not", "an", "object"]),
            Said(200, b"<html>a welcome page</html>"),
            Said(200, b"", cut=True),
        ],
        ids=["proxy's page", "nothing", "elsewhere", "a list", "a page", "cut off"],
    )
    def test_they_end_in_a_sentence(self, run, monkeypatch, said):
        monkeypatch.setenv("PENSTOCK_TOKEN", "t")
        with Answering(lambda _: said) as here:
            code, out, error = run("jobs", "--server", here.address)
        assert code == 1
        assert "unexpected" not in error
        assert "Traceback" not in out + error

    def test_wrong_fields_are_named(self, run, monkeypatch):
        monkeypatch.setenv("PENSTOCK_TOKEN", "t")
        refusal = {"code": "REQUEST_INVALID", "message": "The request is not valid", "remedy": "Correct the fields",
                   "details": {"fields": {"query.status.0": "should be one of ours"}}}  # fmt: skip
        with Answering(lambda _: Said(400, refusal)) as here:
            error = run("jobs", "--server", here.address, "--status", "odd")[2]
        assert "query.status.0: should be one of ours" in error
