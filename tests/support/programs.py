"""Programs that tests start: this interpreter, on this checkout's code."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def environment(**extra: str) -> dict[str, str]:
    """Ours without the settings of whoever runs the tests, with this checkout first on the path and fresh metrics."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "LC_", "LANG"))}
    return plain | {
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "LANG": "C.UTF-8",
        "PENSTOCK_METRICS_SHARED_SEC": "0",
        **extra,
    }


def start_python(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    options.setdefault("env", environment())
    return subprocess.Popen([sys.executable, *arguments], text=True, **options)
