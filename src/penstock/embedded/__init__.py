"""A private, real PostgreSQL and Redis, installed from wheels, living in one data directory."""

from penstock.embedded.failure import EmbeddedFailure
from penstock.embedded.home import Holder, Home
from penstock.embedded.postgres import EmbeddedPostgres
from penstock.embedded.redis import EmbeddedRedis

__all__ = ["EmbeddedFailure", "EmbeddedPostgres", "EmbeddedRedis", "Holder", "Home"]
