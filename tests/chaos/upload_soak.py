"""Uploads under fire: real clients send files through two servers that are killed, and a network that is cut.

Every file must end byte for byte as it was sent. All the while a watcher proves that no offset, in PostgreSQL or in an
answer, is ever ahead of the bytes on disk or goes back, and that the bytes before it are the right ones.
`python -m tests.chaos.upload_soak --uploads 100`; the same seed makes the same files and the same order of trouble.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.stage import Stage
from tests.chaos.upload_watcher import Watcher
from tests.support.cutting_proxy import CuttingProxy
from tests.support.edge import token
from tests.support.gateway import Gateway
from tests.support.programs import start_python
from tests.support.tus import UPLOADS

CLIENTS = 4
LARGEST = 6_000_000


@dataclass
class Soak:
    """One seeded run on a stage that is open."""

    stage: Stage
    network: CuttingProxy
    servers: list[Gateway]
    seed: int
    uploads: int
    sources: dict[str, bytes] = field(default_factory=dict)
    running: dict[str, "subprocess.Popen[str]"] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def run(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        waiting = [self._file(number) for number in range(self.uploads)]
        while waiting or self.running:
            assert time.monotonic() < deadline, f"{len(self.addresses)} of {self.uploads} are done\n{self._state()}"
            while waiting and len(self.running) < CLIENTS:
                self._begin(waiting.pop())
            self._break_something()
            self._collect()

    def _file(self, number: int) -> str:
        name = f"{number:04d}.pdf"
        self.sources[name] = self.random.randbytes(self.random.randrange(1, LARGEST))
        (self.stage.home / name).write_bytes(self.sources[name])
        return name

    def _begin(self, name: str) -> None:
        given = {
            "endpoint": self.network.address + UPLOADS,
            "token": token(seconds=7200),
            "file": str(self.stage.home / name),
            "filename": name,
            "storage": str(self.stage.home / f"{name}.json"),
            "chunk_size": self.random.choice([60_000, 300_000, 1 << 20, 1 << 30]),
            "checksum": self.random.random() < 0.4,
            "keep_at_it": True,
        }
        self.running[name] = start_python(
            "-m", "tests.support.tuspy_client", json.dumps(given), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    def _break_something(self) -> None:
        """Often enough that most uploads are hit, seldom enough that they get on."""
        time.sleep(self.random.uniform(0.05, 0.5))
        what = self.random.choices(["kill", "cut", "cut mid-way", "stall", "nothing"], [4, 1, 3, 2, 2])[0]
        server = self.random.choice(self.servers)
        if what == "kill" and not server.is_up():
            # Killed before it is back, it would never do anything on a slow machine: then it is the other one's turn.
            up = [each for each in self.servers if each.is_up()]
            server, what = (up[0], what) if up else (server, "nothing")
        self.counted[what] = self.counted.get(what, 0) + 1
        if what == "kill":
            server.kill()
            self.stage.kills += 1
            server.start(wait=False)
        elif what == "cut":
            self.network.cut()
        elif what == "cut mid-way":
            self.network.cut_after(self.random.randrange(500, LARGEST // 4))
        elif what == "stall":
            self.network.stall_after(self.random.randrange(500, LARGEST // 4))
            time.sleep(self.random.uniform(0.1, 0.4))
            self.network.mend()
            self.network.cut()

    def _collect(self) -> None:
        for name, client in list(self.running.items()):
            if client.poll() is not None:
                said, _ = client.communicate()
                assert client.returncode == 0, f"the client of {name} gave up"
                self.addresses[name] = said.strip()
                del self.running[name]

    def _state(self) -> str:
        rows = self.servers[0].query("select upload_id, filename, status, received, length from tus_uploads")
        return "\n".join(str(row) for row in rows if row["status"] != "FINISHED") + "\n" + self.servers[0].log()

    def judge(self) -> dict[str, int]:
        for name, address in self.addresses.items():
            row = self.servers[0].row(address)
            assert row["status"] == "FINISHED", row
            assert self.servers[0].bytes_of(address) == self.sources[name], f"{name} is not what was sent"
        [begun] = self.servers[0].query("select count(*) from tus_uploads")
        return {
            "files": len(self.addresses),
            "megabytes": sum(map(len, self.sources.values())) // 1_000_000,
            "uploads begun": begun["count"],
            "servers killed": self.stage.kills,
            "connections cut": self.network.cuts,
        }

    def end(self) -> None:
        for client in self.running.values():
            client.kill()
            client.wait()
        for server in self.servers:
            server.kill()


def run(home: Path, *, seed: int, uploads: int, seconds: float) -> dict[str, int]:
    stage = Stage(home)
    stage.open()
    try:
        servers = [Gateway(home, stage.postgres.url, stage.redis.url) for _ in range(2)]
        for server in servers:
            server.start()
        with CuttingProxy(*(server.port for server in servers)) as network:
            soak = Soak(stage, network, servers, seed, uploads)
            try:
                with Watcher(servers[0], network, soak.sources) as watcher:
                    soak.run(seconds)
                return (
                    soak.judge() | watcher.counted() | {f"did: {name}": n for name, n in sorted(soak.counted.items())}
                )
            finally:
                soak.end()
    finally:
        stage.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="repeat a run")
    parser.add_argument("--uploads", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=15)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}; repeat with --seed {seed}", flush=True)  # noqa: T201
    with tempfile.TemporaryDirectory(prefix="penstock-chaos-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        counted = run(Path(name), seed=seed, uploads=given.uploads, seconds=given.minutes * 60)
    for what, number in counted.items():
        print(f"{what:28} {number}")  # noqa: T201
    print("every file is what was sent; no offset was ever ahead of its bytes")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
