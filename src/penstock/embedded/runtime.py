"""What `penstock up` does on one data directory, from the first check to the last process stopped.

Everything that can be refused is refused before anything is started: the directory, its holder, the ports.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from penstock.embedded.child import Child
from penstock.embedded.failure import EmbeddedFailure
from penstock.embedded.home import Holder, Holding, Home
from penstock.embedded.ports import free_port, refuse_taken
from penstock.embedded.postgres import EmbeddedPostgres
from penstock.embedded.redis import EmbeddedRedis
from penstock.embedded.stopping import Interrupted, StopRequests
from penstock.embedded.supervisor import Notice, Supervised, Supervisor, What

POSTGRES, REDIS, MIGRATIONS = "PostgreSQL", "Redis", "migrations"
_SECONDS_TO_RECOVER = 600  # PostgreSQL after a crash, at the worst
_SECONDS_FOR_CHILDREN = 45


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
    shutdown_seconds: float = 20


@dataclass(frozen=True, slots=True)
class Place:
    """Where a started runtime is: everything children and the banner need to know."""

    home: Home
    host: str
    port: int
    grpc_port: int
    database_url: str
    redis_url: str
    secret: str

    @property
    def address(self) -> str:
        """The HTTP address to open on this machine."""
        return f"http://{_reachable(self.host)}:{self.port}"

    def environment(self) -> dict[str, str]:
        """What tells a role where it runs."""
        return {
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
        holder = Holder(port=self._plan.port, grpc_port=self._plan.grpc_port, address=_reachable(self._plan.host))
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
        port, grpc_port = plan.port or free_port(plan.host), plan.grpc_port or free_port(plan.host)
        if port == grpc_port:
            raise EmbeddedFailure(
                f"HTTP and gRPC cannot share port {port}: choose two with --port and --grpc-port.",
                f"HTTP 与 gRPC 不能共用端口 {port}：请用 --port 和 --grpc-port 分别指定。",
            )
        refuse_taken(plan.host, port, option="--port")
        refuse_taken(plan.host, grpc_port, option="--grpc-port")
        holding.holder.port, holding.holder.grpc_port = port, grpc_port
        holding.write()
        home.empty_metrics()
        database, redis = EmbeddedPostgres(home.path), EmbeddedRedis(home.path)
        return Place(home, plan.host, port, grpc_port, database.url, redis.url, home.secret())

    def _start_servers(self, supervisor: Supervisor, place: Place) -> None:
        from penstock.kernel.migrations import SchemaTooNew, migrate  # slow to import, and only we need it

        home = place.home.path
        postgres = Supervised(POSTGRES, EmbeddedPostgres(home), vital=True)
        redis = EmbeddedRedis(home)
        supervisor.start([postgres, Supervised(REDIS, redis, vital=True)], seconds=_SECONDS_TO_RECOVER)
        self._tell(Notice(What.STARTING, MIGRATIONS))
        try:
            migrate(place.database_url)
        except SchemaTooNew as newer:
            raise _schema_too_new(home, newer.found, newer.newest) from newer
        self._tell(Notice(What.READY, MIGRATIONS))


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


def _reachable(host: str) -> str:
    """An address to open in a browser here: the wildcard is not one."""
    if host in {"0.0.0.0", "::", ""}:  # noqa: S104  compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
