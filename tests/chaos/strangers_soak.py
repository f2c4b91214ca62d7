"""Attacks without a token on the ports of a real system, and what a signed-in caller notices of them.

`python -m tests.chaos.strangers_soak [--connections 20000] [--seconds 25] [--only TEXT]`. Starts `penstock serve` and
`penstock bucket` with a PostgreSQL and a Redis of their own; two processes per attack keep so many connections open
from many loopback addresses. For each attack: the times of a signed-in caller, over a connection that is kept and over
new ones; the server's memory; and how long after the end everything is released. A table with a verdict comes last;
the exit code is 1 when one is bad.

The attackers and whatever else runs here use the same cores, so times are compared with those of a second, equal
system that nobody attacks, asked in turn with the first. Opening the connections is a burst: the caller is measured
after `OPENING_SECONDS`, and the worst answer since the beginning is shown beside it.
"""

import argparse
import contextlib
import http.client
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import psutil
from grpc_health.v1 import health_pb2, health_pb2_grpc

from penstock.rpc.video.v1 import upload_pb2 as wire
from penstock.rpc.video.v1.upload_pb2_grpc import UploadServiceStub
from tests.support.bucket import BucketProcess
from tests.support.edge import bearer
from tests.support.gateway import Gateway
from tests.support.programs import start_python
from tests.support.standalone import standalone

OPENING_SECONDS = 5.0
_RELEASED_WITHIN = 60.0
_MOST_MEMORY_MB = 500  # on top of what it had
_SLOWER, _NOISE_SECONDS = 2.0, 0.01  # what a caller may notice, and what a machine of two cores does by itself
_FREE = {"GW_API_RATE_PER_SEC": "1000", "GW_API_BURST": "1000"}


@dataclass(frozen=True)
class Attack:
    """A kind of `tests.chaos.strangers`, or `watchers`, against one port."""

    on: str
    kind: str
    share: float = 1.0  # of the connections asked for: busy ones cost the attacker's cores too


ATTACKS = (
    Attack("http", "idle"),
    Attack("http", "slow headers"),
    Attack("http", "endless headers", 0.1),
    Attack("http", "HTTP/2 headers", 0.1),
    Attack("http", "slow bodies"),
    Attack("http", "endless bodies", 0.1),
    Attack("http", "unread answers", 0.5),
    Attack("grpc", "idle"),
    Attack("grpc", "HTTP/2 idle"),
    Attack("grpc", "HTTP/2 headers", 0.1),
    Attack("grpc", "watchers"),
    Attack("bucket", "idle"),
    Attack("bucket", "slow headers"),
    Attack("bucket", "slow tokens"),
)


@dataclass
class Times:
    """Seconds that answers took; a failure counts as ten."""

    kept: list[float] = field(default_factory=list)
    new: list[float] = field(default_factory=list)

    def at(self, share: float) -> float:
        """Over both sorts, the worse of the two."""
        return max(sorted(one)[int(len(one) * share)] for one in (self.kept, self.new))


Ask = Callable[[bool], None]  # over the connection that is kept, or over a new one


def measured(attacked: Ask, calm: Ask, seconds: float) -> tuple[Times, Times]:
    """The times of both systems, asked in turn."""
    found, end = (Times(), Times()), time.monotonic() + seconds
    while time.monotonic() < end:
        for times, ask in zip(found, (attacked, calm), strict=True):
            times.kept.append(_timed(ask, kept=True))
            times.new.append(_timed(ask, kept=False))
        time.sleep(0.02)
    return found


def _timed(ask: Ask, *, kept: bool) -> float:
    began = time.perf_counter()
    try:
        ask(kept)
    except (OSError, http.client.HTTPException, grpc.RpcError, AssertionError):
        return max(10.0, time.perf_counter() - began)
    return time.perf_counter() - began


def over_http(port: int, path: str, headers: dict[str, str]) -> Ask:
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def ask(keeping: bool) -> None:
        one = kept if keeping else http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            one.request("GET", path, headers=headers)
            answer = one.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
        except BaseException:
            one.close()
            raise
        if not keeping:
            one.close()

    return ask


def over_grpc(port: int) -> Ask:
    kept = grpc.insecure_channel(f"127.0.0.1:{port}")
    metadata = [("authorization", bearer(seconds=3600)["Authorization"])]

    def look(channel: grpc.Channel) -> None:
        asked = wire.GetUploadRequest(upload_id="01890a5d-ac96-774b-bcce-b302099a8057")
        try:
            UploadServiceStub(channel).GetUpload(asked, metadata=metadata, timeout=10)
        except grpc.RpcError as refused:
            if refused.code() is not grpc.StatusCode.NOT_FOUND:
                raise

    def ask(keeping: bool) -> None:
        if keeping:
            look(kept)
            return
        with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]) as own:
            look(own)

    return ask


@dataclass
class Target:
    """A port, its process, who calls it, and who calls the same port of the system that nobody attacks."""

    port: int
    process: psutil.Process
    ask: Ask
    ask_calm: Ask

    @property
    def memory_mb(self) -> int:
        return self.process.memory_info().rss >> 20


@contextlib.contextmanager
def system() -> Iterator[dict[str, Target]]:
    with standalone(**_FREE) as made, contextlib.ExitStack() as ending:
        gateways, buckets = [made.gateway], []
        home = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="penstock-strangers-")))
        calm = Gateway(home, made.postgres.url, made.redis.url, **_FREE)
        ending.callback(calm.kill)
        gateways.append(calm.start())
        for number in range(2):
            buckets.append(BucketProcess(home / str(number), whole=True).start())
            ending.callback(buckets[-1].close)
        yield targets(gateways, buckets)


def targets(gateways: list[Gateway], buckets: list[BucketProcess]) -> dict[str, Target]:
    """Those of the first system; the second is there to compare with."""
    signed_in = bearer(seconds=3600)
    assert gateways[0].process is not None
    serve, bucket = psutil.Process(gateways[0].process.pid), psutil.Process(buckets[0].process.pid)
    ports = [int(one.settings["PENSTOCK_GRPC_PORT"]) for one in gateways]
    objects = "/storage/v1/b/penstock-uploads/o"
    by_http = [over_http(one.port, "/api/v1/jobs", signed_in) for one in gateways]
    by_token = [over_http(one.port, objects, {"authorization": f"Bearer {one.token()}"}) for one in buckets]
    return {
        "http": Target(gateways[0].port, serve, *by_http),
        "grpc": Target(ports[0], serve, *map(over_grpc, ports)),
        "bucket": Target(buckets[0].port, bucket, *by_token),
    }


def attackers(attack: Attack, port: int, connections: int, seconds: float) -> list["subprocess.Popen[str]"]:
    """Two processes: one could not open 20,000 connections."""
    if attack.kind == "watchers":
        return [start_python("-m", "tests.chaos.strangers_soak", "--watch", str(port), "--seconds", str(seconds))]
    wanted = int(connections * attack.share) // 2
    given = ["--kind", attack.kind, "--port", str(port), "--connections", str(wanted), "--seconds", str(seconds)]
    command = ["-m", "tests.chaos.strangers", *given, "--sources", "200"]
    return [start_python(*command, stdout=subprocess.DEVNULL) for _ in range(2)]


@dataclass
class Outcome:
    """One row of the table."""

    attack: Attack
    during: Times
    calm: Times
    worst: float
    memory_mb: tuple[int, int]
    most_descriptors: int
    released_after: float

    @property
    def faults(self) -> list[str]:
        found = []
        for name, share in (("p50", 0.5), ("p95", 0.95)):
            if self.during.at(share) > max(_SLOWER * self.calm.at(share), self.calm.at(share) + _NOISE_SECONDS):
                found.append(name)
        if self.memory_mb[1] - self.memory_mb[0] > _MOST_MEMORY_MB:
            found.append("memory")
        if self.released_after > _RELEASED_WITHIN:
            found.append("release")
        return found

    def row(self) -> str:
        calm, during = self.calm, self.during
        times = (calm.at(0.5), during.at(0.5), calm.at(0.95), during.at(0.95), self.worst)
        shown = " ".join(f"{1000 * one:8.1f}" for one in times)
        memory = f"{self.memory_mb[0]:5d} {self.memory_mb[1]:5d} {self.most_descriptors:7d} {self.released_after:8.1f}"
        verdict = "ok" if not self.faults else "BAD: " + ", ".join(self.faults)
        return f"{self.attack.on:7} {self.attack.kind:16} {shown} {memory}  {verdict}"


HEADER = "port    attack          calm p50 attacked calm p95 attacked    worst   MiB  most  descr. released  verdict"


def tried(target: Target, attack: Attack, connections: int, seconds: float) -> Outcome:
    measured(target.ask, target.ask_calm, 2)
    memory, quiet = target.memory_mb, target.process.num_fds()
    most, over = [memory, quiet], threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            most[:] = max(most[0], target.memory_mb), max(most[1], target.process.num_fds())

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        started = attackers(attack, target.port, connections, seconds)
        opening, _ = measured(target.ask, target.ask_calm, OPENING_SECONDS)
        during, calm = measured(target.ask, target.ask_calm, seconds - OPENING_SECONDS - 1)
        for one in started:
            one.wait(seconds + 60)
        ended = time.monotonic()
        while target.process.num_fds() > quiet + 10 and time.monotonic() - ended < 2 * _RELEASED_WITHIN:
            time.sleep(0.1)
    finally:
        over.set()
        watching.join()
    return Outcome(
        attack, during, calm, max(opening.at(1 - 1e-9), during.at(1 - 1e-9)), (memory, most[0]), most[1],
        time.monotonic() - ended,
    )  # fmt: skip


def watch_health(port: int, seconds: float) -> None:
    """As many watchers as will have us, over many connections."""
    channels = [
        grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1), ("n", n)]) for n in range(60)
    ]
    watching = [health_pb2_grpc.HealthStub(one).Watch(health_pb2.HealthCheckRequest()) for one in channels * 100]
    time.sleep(seconds)
    for one in watching:
        one.cancel()
    for channel in channels:
        channel.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=25)
    parser.add_argument("--only", default="", help="attacks whose port and name contain this")
    parser.add_argument("--watch", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.watch:
        watch_health(given.watch, given.seconds)
        return 0
    outcomes = []
    with system() as found:
        for attack in ATTACKS:
            if given.only in f"{attack.on} {attack.kind}":
                outcomes.append(tried(found[attack.on], attack, given.connections, given.seconds))
                print(HEADER if len(outcomes) == 1 else "", outcomes[-1].row(), sep="\n", flush=True)  # noqa: T201
    bad = [one for one in outcomes if one.faults]
    print(f"{len(outcomes) - len(bad)} of {len(outcomes)} attacks were borne")  # noqa: T201
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
