"""Where a person types `penstock send`."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.direct_system import DirectSystem
from tests.support.edge import token
from tests.support.shells import Shell


def send_shell(system: DirectSystem, directory: Path) -> Shell:
    server = ["--server", system.serve.address, "--chunk-size", "256KiB"]
    return Shell(directory, ["send"], server, PENSTOCK_TOKEN=token(seconds=600))


def document(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return dict(json.loads(done.stdout))
