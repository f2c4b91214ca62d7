"""Metrics of several processes, answered by one."""

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

SOURCE = str(Path(__file__).parents[4] / "src")


_COUNTING = """
import os, sys
from prometheus_client import Counter, Gauge
Counter("penstock_test_things", "Things.").inc(2)
Gauge("penstock_test_busy", "Busy.", multiprocess_mode="livesum").set(1)
print(os.getpid(), flush=True)
sys.stdin.read()
"""

_READING = """
import sys
from pathlib import Path
from penstock.kernel.telemetry.metrics import exposition, metrics_server
import urllib.request
shown = exposition()
with metrics_server(0) as port:
    assert urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read() == shown
print(shown.decode())
"""


class TestMetrics:
    def test_one_process_answers_for_all_and_the_dead_are_forgotten(self, tmp_path):
        environment = os.environ | {"PYTHONPATH": SOURCE, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
        start = [sys.executable, "-c", _COUNTING]
        running = [
            subprocess.Popen(start, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for process in running:
            process.stdout.readline()
        both = self.read(environment)
        assert "penstock_test_things_total 4.0" in both
        assert "penstock_test_busy 2.0" in both
        running[0].kill()
        running[0].communicate()
        one = self.read(environment)
        assert "penstock_test_things_total 4.0" in one
        assert "penstock_test_busy 1.0" in one
        running[1].communicate("")

    def read(self, environment: dict[str, str]) -> str:
        command = [sys.executable, "-c", _READING]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    def test_a_process_alone_answers_for_itself(self):
        from prometheus_client import Counter

        from penstock.kernel.telemetry.metrics import exposition, metrics_server

        Counter("penstock_test_alone", "Alone.").inc()
        assert b"penstock_test_alone_total 1.0" in exposition()
        with metrics_server(0) as port, urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert b"penstock_test_alone_total 1.0" in answer.read()
