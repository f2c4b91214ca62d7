"""`penstock harvest standin`: an address, how to use it, and an end on Ctrl-C."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest
import typer
from typer.testing import CliRunner

from penstock.cli import screen
from penstock.cli.harvest import standin

ROOT = Path(__file__).parents[3]
PROGRAM = """
import typer
from penstock.cli.harvest import standin
app = typer.Typer()
app.callback()(lambda: None)
standin.register(app)
app()
"""


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.callback()(lambda: None)
    standin.register(app)
    return app


class TestServing:
    async def test_it_prints_the_address_and_how_to_point_a_source_at_it_and_ends_on_interrupt(self):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, "standin", "openalex", "--records", "40", "--days", "3", "--no-limits",
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "LC_ALL": "C.UTF-8"},
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        url = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().split()[-1]
        assert '"baseUrl": "' + url in (await asyncio.wait_for(process.stdout.readline(), 30)).decode()
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            assert (await client.get(f"{url}/works", params={"api_key": "mine"})).json()["meta"]["count"] > 0
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 30) != 0


class TestRefusing:
    def test_an_unknown_source_is_refused_with_those_that_there_are(self, app: typer.Typer):
        result = CliRunner().invoke(app, ["standin", "pubmde"])
        assert isinstance(result.exception, screen.Refusal)
        assert "crossref" in str(result.exception)

    def test_a_port_in_use_is_refused(self, app: typer.Typer):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            result = CliRunner().invoke(app, ["standin", "crossref", "--records", "5", "--port", port])
        assert isinstance(result.exception, screen.Refusal)
        assert port in str(result.exception)

    def test_an_installed_package_says_where_stand_ins_are(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(standin.penstock, "__file__", str(tmp_path / "a" / "b" / "penstock" / "__init__.py"))
        with pytest.raises(screen.Refusal, match="tests/standins"):
            standin.standin_root()
