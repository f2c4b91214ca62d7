"""Programs of others that some tests need, and what happens where they are absent."""

import os
import shutil
from collections.abc import Sequence

import pytest

_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])


def needed(*programs: str, missing: Sequence[str] = ()) -> dict[str, str]:
    """Where they are. One that is absent skips the test, except where everything must be there."""
    found = {name: shutil.which(name, path=_PATH) for name in programs}
    absent = [name for name, path in found.items() if path is None] + list(missing)
    if absent:
        sentence = f"make setup has not installed: {', '.join(absent)}"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)
    return {name: str(path) for name, path in found.items()}
