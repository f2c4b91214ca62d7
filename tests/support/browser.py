"""Clients that others wrote, outside this process: three of them in Node, pages in a headless browser."""

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from tests.support import needs
from tests.support.programs import ROOT, environment

HERE = ROOT / "tests" / "browser"


def needed(*programs: str) -> dict[str, str]:
    """Where they are, beside the packages of tests/browser."""
    packages = [] if (HERE / "node_modules").is_dir() else ["the packages of tests/browser (npm ci)"]
    return needs.needed(*programs, missing=packages)


def content(size: int, seed: int) -> bytes:
    """The same bytes as `content` in tests/browser/page.js makes."""
    return bytes((at * 31 + (at >> 8) * 7 + seed) & 255 for at in range(size))


class Talking:
    """A program that says lines of JSON and is told lines of text."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()
        )
        self._said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._complaints = ""
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._listen, self._complain)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for thread in self._threads:
            thread.join(5)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self, seconds: float = 30) -> dict[str, Any]:
        try:
            said = self._said.get(timeout=seconds)
        except queue.Empty:
            raise AssertionError(f"nothing was said within {seconds:.0f} s\n{self._complaints}") from None
        if said is None:
            raise AssertionError(f"it ended\n{self._complaints}")
        return said

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.put(json.loads(line))
        self._said.put(None)

    def _complain(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._complaints += line


class NodeUpload(Talking):
    """tus-js-client in a process of its own; see tests/browser/node_client.mjs for what it may be given."""

    def __init__(self, endpoint: str, token: str, file: Path, **more: Any) -> None:
        node = needed("node")["node"]
        given = {"endpoint": endpoint, "token": token, "file": str(file), **more}
        super().__init__([node, str(HERE / "node_client.mjs"), json.dumps(given)])

    def until(self, event: str, seconds: float = 30) -> dict[str, Any]:
        """What it says of this event; an error that was not asked for is a failure."""
        while True:
            said = self.hear(seconds)
            if said["event"] == event:
                return said
            assert said["event"] != "error", said

    def result(self) -> str:
        """The address of the finished upload."""
        return str(self.until("success")["url"])


class NodeCalls(Talking):
    """grpc-js in a process of its own, with the proto as phones get it; it says what came of each call."""

    def __init__(self, address: str, metadata: dict[str, str], calls: list[tuple[str, dict[str, Any]]]) -> None:
        node = needed("node")["node"]
        proto = str(ROOT / "proto" / "video" / "v1" / "upload.proto")
        given = {"address": address, "proto": proto, "metadata": metadata, "calls": calls}
        super().__init__([node, str(HERE / "grpc_client.mjs"), json.dumps(given)])


class NodeStorage(Talking):
    """@google-cloud/storage in a process of its own; see tests/browser/storage_client.mjs for what it may be given."""

    def __init__(self, **given: Any) -> None:
        node = needed("node")["node"]
        super().__init__([node, str(HERE / "storage_client.mjs"), json.dumps(given)])


class Browser(Talking):
    """One headless browser; its pages share what a browser stores for a site."""

    def __init__(self) -> None:
        found = needed("node", "chromium")
        super().__init__([found["node"], str(HERE / "drive.mjs"), found["chromium"]])
        self.hear(60)
        self._pages = 0

    def do(self, **command: Any) -> Any:
        self.tell(json.dumps(command))
        said = self.hear()
        assert "error" not in said, said["error"]
        return said["value"]

    def open(self) -> "Page":
        self._pages += 1
        self.do(do="open", page=self._pages)
        return Page(self, self._pages)


class Page:
    """One page; `call` is a function of window.tests in tests/browser/page.js."""

    def __init__(self, browser: Browser, number: int) -> None:
        self._browser = browser
        self._number = number

    def call(self, name: str, **given: Any) -> Any:
        return self._browser.do(do="call", page=self._number, name=name, given=given)

    def close(self) -> None:
        self._browser.do(do="close", page=self._number)

    def state(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("state", key=key)
        return found

    def until(self, key: str, condition: Callable[[dict[str, Any]], bool], seconds: float = 20) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while not condition(state := self.state(key)):
            assert state["error"] is None, state
            assert time.monotonic() < deadline, state
            time.sleep(0.05)
        return state

    def result(self, key: str) -> str:
        """The address of the finished upload."""
        return str(self.until(key, lambda state: state["done"])["url"])
