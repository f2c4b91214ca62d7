"""Named places where the chaos tests kill or stop a process. They do nothing unless PENSTOCK_FAILPOINT names them.

`PENSTOCK_FAILPOINT="relay.published=kill"` kills at the first pass, `=kill@3` at the third. Several are
separated by commas. The signal is SIGKILL: no handler runs, nothing is flushed, as in a power cut. `stop` sends
SIGSTOP instead: the process stays there, with all it holds, until somebody sends SIGCONT.
"""

import os
import signal

_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class _Armed:
    def __init__(self, text: str) -> None:
        self.remaining: dict[str, int] = {}
        self.signals: dict[str, signal.Signals] = {}
        for entry in filter(None, text.split(",")):
            name, _, action = entry.partition("=")
            verb, _, count = action.partition("@")
            if verb not in _SIGNALS:
                raise ValueError(f"PENSTOCK_FAILPOINT: {entry!r} should read NAME=kill, NAME=stop or NAME=kill@N")
            self.remaining[name], self.signals[name] = int(count or 1), _SIGNALS[verb]


_armed = _Armed(os.environ.get("PENSTOCK_FAILPOINT", ""))


def arm(text: str) -> None:
    """As if PENSTOCK_FAILPOINT had said so from the start; for a process that was forked."""
    _armed.__init__(text)  # type: ignore[misc]


def reach(name: str) -> None:
    """Say that the code has come to this place."""
    if name not in _armed.remaining:
        return
    _armed.remaining[name] -= 1
    if _armed.remaining[name] == 0:
        os.kill(os.getpid(), _armed.signals[name])
