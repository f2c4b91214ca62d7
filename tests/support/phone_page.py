"""The page for people who write apps, run as they would run it: its curl lines, in the order of the page."""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.support.direct_system import DirectSystem
from tests.support.edge import token
from tests.support.needs import needed

_PAGE = Path(__file__).parents[2] / "docs" / "send-from-a-phone.md"
SETUP, ANNOUNCE, BEGIN, SEND, ASK, LOOK, A_PART, COMPLETE = range(8)


def run_page(system: DirectSystem, directory: Path, *blocks: int) -> list[str]:
    """What the lines print. The server and the token are ours; `directory` has a holiday.mp4."""
    needed("bash", "curl", "python3", "md5sum")
    found = re.findall(r"```bash\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    assert len(found) == COMPLETE + 1
    name_it = found[LOOK].splitlines()[0]  # ID=…
    lines = [line for block in blocks for line in f"{name_it if block == A_PART else ''}\n{found[block]}".splitlines()]
    script = "\n".join(line for line in lines if not line.startswith("export "))
    env = {"PATH": os.environ["PATH"], "PENSTOCK": system.serve.address, "TOKEN": token(seconds=600)}
    done = subprocess.run(
        ["bash", "-eu", "-c", script], cwd=directory, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def opened(directory: Path) -> dict[str, Any]:
    return dict(json.loads((directory / "opened.json").read_text()))
