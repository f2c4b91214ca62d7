"""A program on a kernel without Landlock: starts a sandbox and says how strong it is, what is logged, what health says.

The call that would make file rules is answered with ENOSYS, as an older kernel does, by a system call filter.
"""

import asyncio
import ctypes
import errno
import json
import struct
import sys

import structlog
from structlog.testing import capture_logs

from penstock.kernel.errors import PenstockError
from penstock.kernel.health import sandbox_check
from penstock.kernel.sandbox import Sandbox, SandboxSettings

_LANDLOCK_CREATE_RULESET = 444


def take_landlock_away() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, _LANDLOCK_CREATE_RULESET), (0x06, 0, 0, 0x50000 | errno.ENOSYS),
             (0x06, 0, 0, 0x7FFF0000)]  # fmt: skip
    program = b"".join(struct.pack("=HBBI", *step) for step in steps)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))

    none = struct.pack("=6I", *[0] * 6)  # root stays root then, instead of an account that cannot read our modules
    done = [
        libc.prctl(38, 1, 0, 0, 0),
        libc.prctl(22, 2, ctypes.byref(Program(len(steps), program)), 0, 0),
        libc.capset(struct.pack("=Ii", 0x20080522, 0), none),
    ]
    if any(done):
        raise OSError(ctypes.get_errno(), "could not take Landlock away")


async def main(require: str) -> dict[str, object]:
    with capture_logs() as logged:
        try:
            async with Sandbox(SandboxSettings(require=require)) as sandbox:
                found = await sandbox_check(sandbox)()
                said = {"strength": sandbox.strength, "health": found.status, "reason": found.reason}
        except PenstockError as refused:
            said = {"refused": str(refused)}
    return {**said, "log": [(each["log_level"], each["event"]) for each in logged]}


if __name__ == "__main__":
    structlog.reset_defaults()
    take_landlock_away()
    sys.stdout.write(json.dumps(asyncio.run(main(sys.argv[1]))))
