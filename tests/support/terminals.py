"""A terminal of 80 columns, and what a person would read on it."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

import pytest

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A program that runs in a terminal; `text` is all that it has written, without colours and movements."""

    def __init__(self, command: list[str], env: dict[str, str], columns: int = 80) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.set_blocking(self._ours, False)
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**env, "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(theirs)
        self._raw = b""

    @property
    def text(self) -> str:
        with contextlib.suppress(BlockingIOError, OSError):
            while piece := os.read(self._ours, 65536):
                self._raw += piece
        return _CONTROL.sub("", self._raw.decode(errors="replace"))

    @property
    def lines(self) -> list[str]:
        return [line for line in re.split(r"[\r\n]+", self.text) if line.strip()]

    def until(self, wanted: str, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while wanted not in self.text:
            if time.monotonic() > deadline or self.process.poll() is not None:
                assert wanted in self.text, f"it did not say {wanted!r}:\n{self.text}"
            time.sleep(0.02)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def end(self, seconds: float = 20) -> int:
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            _ = self.text  # a full terminal would hold it up
            if time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
                pytest.fail(f"it did not end within {seconds:.0f} s:\n{self.text}")
            time.sleep(0.02)
        _ = self.text
        return self.process.returncode

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
