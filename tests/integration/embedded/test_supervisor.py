"""What ends is started again, what keeps ending is tried for ever, and all stop in order and in time."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.embedded.child import Child
from penstock.embedded.failure import EmbeddedFailure
from penstock.embedded.logs import Follower, cap
from penstock.embedded.ports import free_port, refuse_taken
from penstock.embedded.stopping import Interrupted, StopRequests
from penstock.embedded.supervisor import Notice, Patience, Supervised, Supervisor, What

_POLITE = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('up', flush=True); signal.pause()
"""
_DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True)
while True: signal.pause()
"""
_CURABLE = """
import pathlib, time
if not pathlib.Path({cure!r}).exists(): print('up', flush=True); time.sleep(0.05); raise SystemExit(1)
"""
_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
open({path!r}, 'w').write(str(child.pid))
"""
_QUICK = Patience(crashes=3, within=60, first_wait=0.01, longest_wait=0.05)


class Stage:
    """A supervisor with its notices, and children that are a line of Python each."""

    def __init__(self, directory: Path, requests: StopRequests) -> None:
        self.directory = directory
        self.requests = requests
        self.notices: list[Notice] = []
        self.react: Callable[[Notice], None] = lambda _notice: None
        self.supervisor = Supervisor(requests, tell=self._hear, patience=_QUICK)

    def child(self, name: str, code: str) -> Supervised:
        """Ready when it has said so."""
        log = self.directory / f"{name}.log"
        child = Child(
            name,
            [sys.executable, "-S", "-E", "-c", code],
            log=log,
            environment=dict(os.environ),
            ready=lambda: log.exists() and "up" in log.read_text(),
        )
        return Supervised(name, child)

    def said(self, what: What) -> list[str]:
        return [notice.name for notice in self.notices if notice.what is what]

    def _hear(self, notice: Notice) -> None:
        self.notices.append(notice)
        self.react(notice)


@pytest.fixture
def stage(directory: Path):
    with StopRequests().listening() as requests:
        requests.no_longer_interrupt()
        made = Stage(directory, requests)
        yield made
        made.supervisor.stop(seconds=0)


def ask_to_stop(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


class TestStarting:
    def test_it_waits_until_all_are_ready(self, stage):
        stage.supervisor.start([stage.child("a", _POLITE), stage.child("b", _POLITE)], seconds=10)
        assert sorted(stage.said(What.READY)) == ["a", "b"]

    def test_one_that_ends_meanwhile_is_a_failure_that_shows_its_last_words(self, stage):
        with pytest.raises(EmbeddedFailure, match="a stopped while starting") as failure:
            stage.supervisor.start([stage.child("a", "raise SystemExit('no such table')")], seconds=10)
        assert "no such table" in failure.value.detail

    def test_one_that_is_never_ready_is_a_failure(self, stage):
        mute = stage.child("mute", "import time; time.sleep(60)")
        with pytest.raises(EmbeddedFailure, match="mute was not ready within 0 s"):
            stage.supervisor.start([mute], seconds=0.2)

    def test_a_request_to_stop_interrupts_it(self, directory):
        with StopRequests().listening() as requests:
            stage = Stage(directory, requests)
            stage.react = ask_to_stop
            with pytest.raises(Interrupted):
                stage.supervisor.start([stage.child("a", _POLITE)], seconds=10)
            stage.supervisor.stop(seconds=5)
        assert requests.asked


class TestWatching:
    def test_one_that_was_killed_is_started_again(self, stage):
        each = stage.child("a", _POLITE)
        stage.supervisor.start([each], seconds=10)
        first = each.part.pid
        stage.react = lambda notice: ask_to_stop() if notice.what is What.BACK else None
        os.kill(first, signal.SIGKILL)
        stage.supervisor.watch()
        assert stage.said(What.ENDED) == ["a"]
        assert each.part.pid not in (None, first)

    def test_one_that_keeps_ending_is_said_once_and_tried_until_it_stays_and_the_others_go_on(self, stage):
        good, cure = stage.child("good", _POLITE), stage.directory / "cure"
        bad = stage.child("bad", _CURABLE.format(cure=str(cure)) + _POLITE)
        stage.supervisor.start([good, bad], seconds=10)
        pid = good.part.pid

        def react(notice: Notice) -> None:
            if notice.what is What.KEEPS_ENDING:
                threading.Timer(1.5, cure.touch).start()
            if notice.what is What.BACK:
                ask_to_stop()

        stage.react = react
        stage.supervisor.watch()
        assert stage.said(What.ENDED) == ["bad", "bad"]
        assert stage.said(What.KEEPS_ENDING) == ["bad"]
        assert stage.said(What.BACK) == ["bad"]
        assert good.part.pid == pid
        assert not good.part.exited()

    def test_one_that_has_stayed_up_for_long_starts_afresh(self):
        part = Supervised("worker", None)
        waits = []
        for lasted in (1.0, 1.0, 1.0, 1.0, 61.0, 1.0):
            part.launched(100.0)
            waits.append(part.crashed(100.0 + lasted, Patience(crashes=3)))
        assert waits == [0, 0.25, 15, 15, 0, 0.25]

    def test_waits_double(self):
        patience = Patience()
        assert [patience.wait(crashes) for crashes in range(1, 7)] == [0, 0.25, 0.5, 1.0, 15, 15]


class TestStopping:
    def test_the_last_started_stops_first(self, stage):
        stage.supervisor.start([stage.child(name, _POLITE) for name in ("a", "b", "c")], seconds=10)
        assert stage.supervisor.stop(seconds=5)
        assert stage.said(What.STOPPED) == ["c", "b", "a"]

    def test_one_that_does_not_listen_is_killed_when_the_time_is_up(self, stage):
        stage.supervisor.start([stage.child("a", _POLITE), stage.child("deaf", _DEAF)], seconds=10)
        assert not stage.supervisor.stop(seconds=0.1)
        assert stage.said(What.KILLED) == ["deaf"]
        assert stage.said(What.STOPPED) == ["a"]

    def test_a_second_request_stops_at_once(self, stage):
        stage.supervisor.start([stage.child("deaf", _DEAF)], seconds=10)
        ask_to_stop()
        threading.Timer(0.1, ask_to_stop).start()
        begun = time.monotonic()
        stage.supervisor.stop(seconds=60)
        assert time.monotonic() - begun < 5
        assert stage.said(What.KILLED) == ["deaf"]

    def test_what_a_child_started_goes_with_it(self, stage):
        noted = stage.directory / "pid"
        code = _PARENT.format(path=str(noted)) + _DEAF
        stage.supervisor.start([stage.child("deaf", code)], seconds=10)
        stage.supervisor.stop(seconds=0.1)
        grandchild = int(noted.read_text())
        deadline = time.monotonic() + 5
        while _alive(grandchild) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not _alive(grandchild)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class TestLogs:
    def test_a_large_one_is_emptied_in_place_and_its_writer_goes_on(self, directory):
        log = directory / "a.log"
        with log.open("ab") as writer:
            writer.write(b"x" * 2000)
            writer.flush()
            cap(log, size=1000)
            writer.write(b"after\n")
        assert log.read_bytes() == b"after\n"
        assert (directory / "a.log.1").read_bytes() == b"x" * 2000

    def test_a_follower_sees_new_whole_lines_once(self, directory):
        log = directory / "a.log"
        log.write_text("old\n")
        follower = Follower(log)
        with log.open("a") as writer:
            writer.write("one\ntwo\nthr")
        assert list(follower.lines()) == ["one", "two"]
        with log.open("a") as writer:
            writer.write("ee\n")
        assert list(follower.lines()) == ["three"]
        log.write_text("new\n")
        assert list(follower.lines()) == ["new"]


class TestPorts:
    def test_a_taken_port_is_refused_and_its_holder_named(self):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = holder.getsockname()[1]
            with pytest.raises(EmbeddedFailure, match=rf"Port {port} .* process {os.getpid()}: .*--port"):
                refuse_taken("127.0.0.1", port, option="--port")

    @pytest.mark.parametrize("host", ["999.1.1.1", "192.0.2.1"])
    def test_no_port_is_free_on_a_host_that_is_not_ours(self, host):
        with pytest.raises(EmbeddedFailure, match=f"{host} is not an address of this machine"):
            free_port(host)

    def test_a_free_port_is_not_refused(self):
        refuse_taken("127.0.0.1", free_port("127.0.0.1"), option="--port")

    def test_a_foreign_address_is_refused(self):
        with pytest.raises(EmbeddedFailure, match=r"192\.0\.2\.1 is not an address of this machine"):
            refuse_taken("192.0.2.1", 8000, option="--port")
