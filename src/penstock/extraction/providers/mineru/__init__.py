"""MinerU: one adapter for each of its four contracts, the right one found by asking the server."""

from penstock.extraction.providers.mineru.provider import MineruProvider
from penstock.extraction.providers.mineru.settings import MineruSettings

__all__ = ["MineruProvider", "MineruSettings"]
