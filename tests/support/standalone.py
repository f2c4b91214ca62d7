"""A server process with a PostgreSQL and a Redis of its own, which a test may stop."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from penstock.embedded import EmbeddedPostgres, EmbeddedRedis
from penstock.kernel.migrations import migrate
from tests.support.gateway import Gateway
from tests.support.places import open_directory


@dataclass(frozen=True)
class Standalone:
    """The three of them."""

    gateway: Gateway
    postgres: EmbeddedPostgres
    redis: EmbeddedRedis


@contextmanager
def standalone(**settings: str) -> Iterator[Standalone]:
    with open_directory() as home, ExitStack() as ending:
        postgres = EmbeddedPostgres(home, settings={"fsync": "off", "synchronous_commit": "off"})
        ending.callback(postgres.stop)
        postgres.start()
        migrate(postgres.url)
        redis = EmbeddedRedis(home)
        ending.callback(redis.stop)
        redis.start()
        gateway = Gateway(home, postgres.url, redis.url, **settings)
        ending.callback(gateway.kill)
        yield Standalone(gateway.start(), postgres, redis)


@contextmanager
def stopped(server: EmbeddedPostgres | EmbeddedRedis) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.start()


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.1)
