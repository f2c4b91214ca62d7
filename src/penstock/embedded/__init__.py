"""A private, real PostgreSQL and Redis, installed from wheels, living in one data directory."""

from penstock.embedded.postgres import EmbeddedPostgres
from penstock.embedded.process import EmbeddedFailure
from penstock.embedded.redis import EmbeddedRedis

__all__ = ["EmbeddedFailure", "EmbeddedPostgres", "EmbeddedRedis"]
