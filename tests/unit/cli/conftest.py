"""Commands run in an empty place, without the settings of whoever runs the tests."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import cli

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No settings of whoever runs the tests, and a directory without a penstock.toml."""
    for name in list(os.environ):
        if name.startswith(("PENSTOCK_", "ETL_", "LC_", "LANG")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, stdout and stderr of a command."""

    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            cli.main(arguments, roles={})
        said = capsys.readouterr()
        return int(left.value.code or 0), said.out, said.err

    return command
