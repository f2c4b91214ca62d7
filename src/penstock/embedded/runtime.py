"""What `penstock up` does on one data directory, from the first check to the last process stopped.

Everything that can be refused is refused before anything is started: the directory, its holder, the ports.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.embedded.bucket.keys import ACCOUNT_FILE, PUSHER, prepare_keys
from penstock.embedded.child import Child
from penstock.embedded.failure import EmbeddedFailure
from penstock.embedded.home import Holder, Holding, Home
from penstock.embedded.ports import free_port, reachable, refuse_taken
from penstock.embedded.postgres import EmbeddedPostgres
from penstock.embedded.redis import EmbeddedRedis
from penstock.embedded.stopping import Interrupted, StopRequests
from penstock.embedded.supervisor import Notice, Supervised, Supervisor, What
from penstock.kernel.disk import free_bytes

POSTGRES, REDIS, MIGRATIONS = "PostgreSQL", "Redis", "migrations"
BUCKET = "penstock-uploads"
_SECONDS_TO_RECOVER = 600  # PostgreSQL after a crash, at the worst
_SECONDS_FOR_CHILDREN = 45
_LEAST_OPEN_BYTES, _MOST_OPEN_BYTES = 2 << 30, 256 << 30


@dataclass(frozen=True, slots=True)
class Program:
    """A role to run beside the servers."""

    name: str
    command: Sequence[str]
    ready: Callable[[], bool] = field(default=lambda: True)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a person asked for. Port 0 picks a free one."""

    home: Path
    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int = 8001
    bucket_port: int | None = 8002  # None: files are sent to somebody else's bucket
    shutdown_seconds: float = 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a started runtime is: everything children and the banner need to know."""

    home: Home
    host: str
    port: int
    grpc_port: int
    bucket_port: int | None
    database_url: str
    redis_url: str
    secret: str

    @property
    def address(self) -> str:
        """The HTTP address to open on this machine."""
        return f"http://{reachable(self.host)}:{self.port}"

    @property
    def bucket_address(self) -> str:
        return f"http://{reachable(self.host)}:{self.bucket_port}"

    def environment(self) -> dict[str, str]:
        """What tells a role where it runs."""
        return {
            **self._bucket_environment(),
            "PENSTOCK_HOME": str(self.home.path),
            "PENSTOCK_HOST": self.host,
            "PENSTOCK_PORT": str(self.port),
            "PENSTOCK_GRPC_PORT": str(self.grpc_port),
            "PENSTOCK_DATABASE_URL": self.database_url,
            "PENSTOCK_REDIS_URL": self.redis_url,
            "PENSTOCK_STORE_URL": self.home.store.as_uri(),
            "PENSTOCK_JWT_SECRET": self.secret,
            "PROMETHEUS_MULTIPROC_DIR": str(self.home.metrics),
            "PYTHONUNBUFFERED": "1",
        }

    def _bucket_environment(self) -> dict[str, str]:
        """Phones send to our own bucket, and it tells us."""
        if self.bucket_port is None:
            return {}
        callback = f"{self.address}/_/gcs/callback"
        return {
            "PENSTOCK_BUCKET_PORT": str(self.bucket_port),
            "BUCKET_NAME": BUCKET,
            "BUCKET_DIRECTORY": str(self.home.bucket),
            "BUCKET_PUSH_URL": callback,
            "BUCKET_PUSH_AUDIENCE": callback,
            "BUCKET_PUSH_ISSUER": self.bucket_address,
            "DIRECT_BUCKET_URL": f"gs://{BUCKET}",
            "DIRECT_ENDPOINT": self.bucket_address,
            "DIRECT_OPEN_BYTES_PER_MERCHANT": str(share_of_disk(free_bytes(self.home.path))),
            "DIRECT_SERVICE_ACCOUNT_FILE": str(self.home.bucket / ACCOUNT_FILE),
            "DIRECT_CALLBACK_AUDIENCE": callback,
            "DIRECT_CALLBACK_EMAIL": PUSHER,
            "DIRECT_CALLBACK_ISSUERS": json.dumps([self.bucket_address]),
            "DIRECT_CALLBACK_JWKS_URL": f"{self.bucket_address}/oauth2/v3/certs",
        }


def share_of_disk(free: int) -> int:
    """The quota of a merchant's open direct uploads: a quarter of what is free, and always one large file."""
    return min(max(free // 4, _LEAST_OPEN_BYTES), _MOST_OPEN_BYTES)


class EmbeddedRuntime:
    """One run of `penstock up`."""

    def __init__(self, plan: Plan, *, tell: Callable[[Notice], None]) -> None:
        self._plan = plan
        self._tell = tell

    def run(
        self,
        programs: Callable[[Place], Sequence[Program]],
        environment: Callable[[Place], Mapping[str, str]],
        *,
        ready: Callable[[Place], None],
        each_look: Callable[[], None] = lambda: None,
    ) -> bool:
        """Until asked to stop; True when everything stopped by itself in time."""
        home = Home(self._plan.home)
        home.prepare()
        holder = Holder(
            port=self._plan.port, grpc_port=self._plan.grpc_port, address=reachable(self._plan.host),
            bucket_port=self._plan.bucket_port,
        )  # fmt: skip
        with StopRequests().listening() as requests, home.held(holder) as holding:
            supervisor = Supervisor(requests, tell=self._tell, started=holding.note_child)
            try:
                place = self._prepare(home, holding)
                self._start_servers(supervisor, place)
                children = [
                    Supervised(program.name, _child(program, home, environment(place))) for program in programs(place)
                ]
                supervisor.start(children, seconds=_SECONDS_FOR_CHILDREN)
                requests.no_longer_interrupt()
                ready(place)
                supervisor.watch(each_look=each_look)
            except Interrupted:
                pass
            finally:
                requests.no_longer_interrupt()
                clean = supervisor.stop(seconds=self._plan.shutdown_seconds)
        return clean

    def _prepare(self, home: Home, holding: Holding) -> Place:
        plan = self._plan
        holding.end_leftovers()
        ports = _ports(plan)
        holder = holding.holder
        holder.port, holder.grpc_port, holder.bucket_port = ports
        holding.write()
        home.empty_metrics()
        database, redis = EmbeddedPostgres(home.path), EmbeddedRedis(home.path)
        place = Place(home, plan.host, *ports, database.url, redis.url, home.secret())
        if place.bucket_port is not None:
            prepare_keys(home.bucket, place.bucket_address)
        return place

    def _start_servers(self, supervisor: Supervisor, place: Place) -> None:
        from penstock.kernel.migrations import SchemaTooNew, migrate  # slow to import, and only we need it

        home = place.home.path
        postgres = Supervised(POSTGRES, EmbeddedPostgres(home))
        redis = EmbeddedRedis(home)
        supervisor.start([postgres, Supervised(REDIS, redis)], seconds=_SECONDS_TO_RECOVER)
        self._tell(Notice(What.STARTING, MIGRATIONS))
        try:
            migrate(place.database_url)
        except SchemaTooNew as newer:
            raise _schema_too_new(home, newer.found, newer.newest) from newer
        self._tell(Notice(What.READY, MIGRATIONS))


def _ports(plan: Plan) -> tuple[int, int, int | None]:
    """Those that were asked for, or free ones; none twice, none taken."""
    wanted = {"--port": plan.port, "--grpc-port": plan.grpc_port}
    if plan.bucket_port is not None:
        wanted["--bucket-port"] = plan.bucket_port
    ports: dict[str, int] = {}
    for option, port in wanted.items():
        ports[option] = port or free_port(plan.host, but=ports.values())
        for other, taken in ports.items():
            if other != option and taken == ports[option]:
                raise _port_shared(port, other, option)
        refuse_taken(plan.host, ports[option], option=option)
    return ports["--port"], ports["--grpc-port"], ports.get("--bucket-port")


def _port_shared(port: int, one: str, other: str) -> EmbeddedFailure:
    what = {"--port": "HTTP", "--grpc-port": "gRPC", "--bucket-port": "bucket"}
    return EmbeddedFailure(
        f"{what[one]} and {what[other]} cannot share port {port}: choose two with {one} and {other}.",
        f"{what[one]} 与 {what[other]} 不能共用端口 {port}：请用 {one} 和 {other} 分别指定。",
    )


def _child(program: Program, home: Home, environment: Mapping[str, str]) -> Child:
    log = home.logs / f"{program.name}.log"
    return Child(program.name, program.command, log=log, environment=environment, ready=program.ready)


def _schema_too_new(home: Path, found: str, newest: str) -> EmbeddedFailure:
    return EmbeddedFailure(
        f"The database in {home} is at revision {found}, which this version of Penstock does not know (its"
        f" newest is {newest}): a newer Penstock made it. Upgrade Penstock, or choose another directory with"
        " --data.",
        f"{home} 中的数据库版本为 {found}，高于当前 Penstock 所知的 {newest}：请升级 Penstock，"
        "或用 --data 指定其他目录。",
    )
