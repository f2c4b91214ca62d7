"""A file goes up from the command line, whatever happens on the way, and its job can be followed to its end."""

import hashlib
import json
import os
import re
import secrets
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.cutting_proxy import CuttingProxy
from tests.support.pdfs import document as one_page
from tests.support.pdfs import stream
from tests.support.places import open_directory
from tests.support.shells import Shell
from tests.support.terminals import Terminal
from tests.support.ups import Up

CHUNK = 1 << 20
SIZE = 6 * CHUNK
MIDDLE = 3 * CHUNK + CHUNK // 2


def pdf(padding: int = 16) -> bytes:
    """A page of text; random bytes that it does not use make it large, and unlike every other."""
    text = b"BT /F 12 Tf 72 720 Td (Chair, oak, 120 EUR; table, beech, 240 EUR) Tj ET"
    return one_page(content=text, objects={5: stream(secrets.token_bytes(padding), packed=False)})


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with open_directory() as directory:
        running = Up(directory / "data", module="penstock").ready()
        yield running
        running.end()


@pytest.fixture
def network(up: Up) -> Iterator[CuttingProxy]:
    with CuttingProxy(int(up.address.rpartition(":")[2])) as between:
        yield between


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "big.pdf"
    made.write_bytes(pdf(SIZE))
    return made


def shell_beside(up: Up, directory: Path) -> Shell:
    """Commands find the `up` of this machine by its data directory."""
    return Shell(directory, after=["--data", str(up.home)], PYTHONDONTWRITEBYTECODE="1")


@pytest.fixture
def shell(up: Up, tmp_path: Path) -> Shell:
    return shell_beside(up, tmp_path)


@pytest.fixture
def terminal(shell: Shell) -> Iterator[Callable[..., Terminal]]:
    with shell.terminals() as start:
        yield start


def arrived(up: Up, upload_id: str) -> bytes:
    return (up.home / "uploads" / upload_id).read_bytes()


def received(up: Up) -> float:
    with urllib.request.urlopen(f"{up.address}/metrics", timeout=10) as answer:
        found = re.search(r"^gateway_upload_bytes_total (\S+)$", answer.read().decode(), re.MULTILINE)
    return float(found[1]) if found else 0.0


def kill_server(up: Up) -> None:
    """SIGKILL to the process that answers HTTP; `up` starts another."""
    [serving] = [child for child in up.children() if child.cmdline()[-1:] == ["serve"]]
    serving.kill()
    psutil.wait_procs([serving], timeout=10)


def small(network: CuttingProxy) -> tuple[str, ...]:
    return "--chunk-size", "1MiB", "--server", network.address


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return dict(json.loads(done.stdout))


class TestUploading:
    def test_it_simply_works_beside_a_running_up(self, up, shell, file):
        done = shell.run("upload", str(file), "--no-job")
        assert done.returncode == 0
        assert done.stderr == "big.pdf: uploading 6.3 MB\n"
        said = re.fullmatch(r"✓ big\.pdf  6\.3 MB\n  Upload +(upl_\S+)\n", done.stdout)
        assert arrived(up, said[1]) == file.read_bytes()

    def test_a_terminal_shows_bars_that_fit(self, shell, network, file, tmp_path, terminal):
        other = tmp_path / f"{'a-rather-long-name-' * 6}.pdf"
        other.write_bytes(pdf())
        network.stall_after(MIDDLE)
        shown = terminal("upload", str(file), str(other), "--no-job", *small(network))
        network.until_stopped()
        shown.until("all 2 files")
        shown.until("/6.3 MB")
        network.mend()
        assert shown.end() == 0
        assert "✓ big.pdf  6.3 MB" in shown.text
        assert max(map(len, shown.lines)) <= 80

    def test_one_bad_file_does_not_hold_up_the_others(self, up, shell, file, tmp_path):
        (tmp_path / "empty.pdf").write_bytes(b"")
        (tmp_path / "odd.doc").write_bytes(file.read_bytes())
        names = ("empty.pdf", "big.pdf", "odd.doc", "nothing.pdf", ".")
        done = shell.run("upload", *(str(tmp_path / name) for name in names), "--no-job", "--json")
        assert done.returncode == 1
        assert done.stderr == ""
        documents = [json.loads(line) for line in done.stdout.splitlines()]
        assert [each["ok"] for each in documents] == [False, True, False, False, False]
        assert arrived(up, documents[1]["upload_id"]) == file.read_bytes()
        assert documents[2]["error"]["code"] == "INVALID_FILE_TYPE"


class TestGoingOn:
    def test_after_ctrl_c_and_worse_only_the_rest_is_sent(self, up, shell, network, file, terminal):
        network.stall_after(MIDDLE)
        first = terminal("upload", str(file), "--no-job", *small(network))
        network.until_stopped()
        first.interrupt()
        assert first.end() == 130
        assert "Run the same command again to go on" in first.text
        assert "Traceback" not in first.text
        before, passed = received(up), network.passed
        network.stall_after(CHUNK + CHUNK // 2)
        second = shell.start("upload", str(file), "--no-job", *small(network))
        network.until_stopped()
        second.kill()
        assert "going on at" in second.communicate()[1]
        network.mend()
        third = shell.run("upload", str(file), "--no-job", *small(network), "--json")
        assert third.returncode == 0
        assert arrived(up, document(third)["upload_id"]) == file.read_bytes()
        assert received(up) - before <= file.stat().st_size - CHUNK  # two whole chunks were there, one was begun twice
        assert network.passed - passed <= file.stat().st_size - CHUNK
        assert list(Path(shell.env["XDG_STATE_HOME"], "penstock", "uploads").iterdir()) == []

    def test_a_network_that_breaks_is_waited_for(self, up, shell, network, file):
        network.cut_after(MIDDLE)
        done = shell.run("upload", str(file), "--no-job", *small(network), "--json")
        assert done.returncode == 0
        assert network.cuts == 1
        assert arrived(up, document(done)["upload_id"]) == file.read_bytes()

    def test_a_server_that_is_killed_and_started_again_is_waited_for(self, up, shell, network, file):
        network.stall_after(MIDDLE)
        running = shell.start("upload", str(file), "--no-job", *small(network))
        network.until_stopped()
        kill_server(up)
        network.mend()
        out, error = running.communicate(timeout=60)
        assert running.returncode == 0, out + error
        assert "the server does not answer; trying again for up to 5 min" in error
        upload_id = re.search(r"upl_\S+", out)[0]
        assert arrived(up, upload_id) == file.read_bytes()
        assert network.passed < file.stat().st_size + 2 * CHUNK

    def test_a_server_that_stays_away_is_given_up_with_a_sentence(self, shell, network, file):
        network.stall_after(MIDDLE)
        running = shell.start("upload", str(file), "--no-job", "--wait", "1s", *small(network))
        network.until_stopped()
        network.down = True
        network.cut()
        out, error = running.communicate(timeout=20)
        assert running.returncode == 1
        assert "does not answer" in out
        assert "Traceback" not in out + error


@pytest.fixture(scope="module")
def job(up: Up, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """One that several tests look at; its file is beside it."""
    directory = tmp_path_factory.mktemp("job")
    path = directory / "spring.pdf"
    path.write_bytes(pdf(SIZE))
    done = shell_beside(up, directory).run("upload", str(path), "--category", "furniture", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return {**document(done)["job"], "path": path}


class TestJobs:
    def test_an_upload_becomes_a_job_of_the_very_same_bytes(self, shell, job):
        assert job["file_hash"] == hashlib.sha256(job["path"].read_bytes()).hexdigest()
        assert (job["total_pages"], job["category"]) == (1, "furniture")
        listed = json.loads(shell.run("jobs", "--category", "furniture", "--since", "1h", "--json").stdout)
        assert [each["job_id"] for each in listed] == [job["job_id"]]

    def test_the_same_file_again_names_the_earlier_job_and_a_broken_one_says_why(self, shell, job, tmp_path):
        broken = tmp_path / "broken.pdf"
        broken.write_bytes(b"%PDF-1.7\n" + os.urandom(1000))
        again = shell.run("upload", str(job["path"]), str(broken))
        assert again.returncode == 1
        duplicate, _, rejected = again.stdout.partition("✗ broken.pdf")
        assert job["job_id"] in duplicate
        assert "--allow-duplicate" in duplicate
        assert re.search(r"\([A-Z_]+[:)]", rejected)
        assert re.search(r"Job +[0-9a-f-]{36}", rejected)

    @pytest.mark.parametrize("killed", ["client.sent", "client.job_made"])
    def test_killed_around_the_making_of_the_job_it_is_made_once(self, shell, job, tmp_path, killed):
        path = tmp_path / f"{killed}.pdf"
        path.write_bytes(pdf())
        shell.env["PENSTOCK_FAILPOINT"] = f"{killed}=kill"
        assert shell.run("upload", str(path)).returncode == -9
        del shell.env["PENSTOCK_FAILPOINT"]
        again = shell.run("upload", str(path), "--json")
        assert again.returncode == 0, again.stdout
        listed = json.loads(shell.run("jobs", "--search", path.name, "--json").stdout)
        assert [each["job_id"] for each in listed] == [document(again)["job"]["job_id"]]

    @pytest.mark.parametrize("command", ["jobs", "job"])
    def test_what_is_shown_fits_into_80_columns(self, job, terminal, command):
        shown = terminal(command, *([job["job_id"]] if command == "job" else []))
        assert shown.end() == 0
        assert job["job_id"] in shown.text
        assert max(map(len, shown.lines)) <= 80

    def test_ctrl_c_ends_following_cleanly(self, job, terminal):
        shown = terminal("job", job["job_id"], "--follow")
        shown.until("snapshot")
        shown.interrupt()
        assert shown.end() == 130
        assert "Traceback" not in shown.text

    def test_events_are_followed_live_to_the_end_across_a_restart(self, up, shell, job, terminal):
        shown = terminal("job", job["job_id"], "--follow")
        program = shell.start("job", job["job_id"], "--follow", "--json")
        shown.until("snapshot")
        assert json.loads(program.stdout.readline())["event"] == "snapshot"
        kill_server(up)
        shown.until("the server does not answer")
        wait_until_ready(up)
        cancelled = shell.run("cancel", job["job_id"])
        assert cancelled.returncode == 0, cancelled.stderr
        assert shown.end(40) == 0
        assert "→ CANCELLED" in shown.text
        assert max(map(len, shown.lines)) <= 80
        rest, _ = program.communicate(timeout=40)
        assert [json.loads(line)["data"].get("to") for line in rest.splitlines()][-1] == "CANCELLED"
        again = shell.run("cancel", job["job_id"])
        assert (again.returncode, "JOB_TERMINAL" in again.stderr) == (1, True)


def wait_until_ready(up: Up, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{up.address}/health/ready", timeout=2):
                return
        except OSError:
            time.sleep(0.1)
    pytest.fail("the server did not come back")
