"""Named places where the chaos tests kill a process. They do nothing unless PENSTOCK_FAILPOINT names them.

`PENSTOCK_FAILPOINT="relay.published=kill"` kills at the first pass, `=kill@3` at the third. Several are
separated by commas. The signal is SIGKILL: no handler runs, nothing is flushed, as in a power cut.
"""

import os
import signal


class _Armed:
    def __init__(self, text: str) -> None:
        self.remaining: dict[str, int] = {}
        for entry in filter(None, text.split(",")):
            name, _, action = entry.partition("=")
            verb, _, count = action.partition("@")
            if verb != "kill":
                raise ValueError(f"PENSTOCK_FAILPOINT: {entry!r} should read NAME=kill or NAME=kill@N")
            self.remaining[name] = int(count or 1)


_armed = _Armed(os.environ.get("PENSTOCK_FAILPOINT", ""))


def reach(name: str) -> None:
    """Say that the code has come to this place."""
    if name not in _armed.remaining:
        return
    _armed.remaining[name] -= 1
    if _armed.remaining[name] <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
