"""A real nginx with the configuration that is shipped: only its port and the addresses of the instances are changed."""

import os
import re
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support.edge import free_port
from tests.support.needs import needed
from tests.support.programs import ROOT

SHIPPED = ROOT / "deploy" / "nginx" / "penstock.conf"
# What a machine's own nginx.conf has. Run by root, nginx would give its workers an account that cannot see our files.
_AROUND = """
{user}
daemon off;
worker_processes 2;
pid {here}/nginx.pid;
events {{ worker_connections 1024; }}
http {{
    log_format ours '$request_method $uri $status $upstream_addr';
    access_log {here}/access.log ours;
    client_body_temp_path {here}/body;
    proxy_temp_path {here}/proxy;
    fastcgi_temp_path {here}/fastcgi;
    uwsgi_temp_path {here}/uwsgi;
    scgi_temp_path {here}/scgi;
    include {here}/penstock.conf;
}}
"""


@dataclass(frozen=True)
class Served:
    """One line of the log; `by` has several addresses where a request was passed on."""

    method: str
    path: str
    status: int
    by: tuple[str, ...]


class Nginx:
    """In the foreground, below a directory of its own, on a port of its own."""

    def __init__(self, here: Path, *instances: int) -> None:
        self._program = needed("nginx")["nginx"]
        self._here = here
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        (here / "penstock.conf").write_text(configured(SHIPPED.read_text(), self.port, instances))
        user = "user root;" if os.geteuid() == 0 else ""
        (here / "nginx.conf").write_text(_AROUND.format(here=here, user=user))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        with (self._here / "error.log").open("w") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log)
        try:
            self._until_answers(self._process)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()  # the master ends its workers
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _until_answers(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + 10
        while not self._answers():
            assert process.poll() is None, self.complaints()
            assert time.monotonic() < deadline, self.complaints()
            time.sleep(0.02)

    def check(self) -> subprocess.CompletedProcess[str]:
        """What `nginx -t` says."""
        return subprocess.run([*self._command(), "-t"], check=False, capture_output=True, text=True)

    def complaints(self) -> str:
        return (self._here / "error.log").read_text()

    def served(self, path: str = "") -> list[Served]:
        """The requests that are over, in order, of addresses that contain `path`."""
        lines = [line.split(" ", 3) for line in (self._here / "access.log").read_text().splitlines()]
        found = [Served(method, uri, int(status), _addresses(by)) for method, uri, status, by in lines]
        return [one for one in found if path in one.path]

    def _command(self) -> list[str]:
        return [self._program, "-p", str(self._here), "-c", str(self._here / "nginx.conf"), "-e", "stderr"]

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def configured(text: str, port: int, instances: tuple[int, ...]) -> str:
    """The two things that every installation sets; nothing else may be in need of a change."""
    text, listens = re.subn(r"^( *)listen 80;", rf"\1listen 127.0.0.1:{port};", text, flags=re.MULTILINE)
    places = iter(instances)
    text, servers = re.subn(
        r"^( *)server 127\.0\.0\.1:\d+", lambda found: f"{found[1]}server 127.0.0.1:{next(places)}", text,
        flags=re.MULTILINE,
    )  # fmt: skip
    assert (listens, servers) == (1, len(instances))
    return text


def _addresses(by: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[\d.]+:\d+", by))
