"""Local servers that behave as the services do from which Penstock harvests, over one library of made-up records.

async with standin("crossref", Library(5000)) as api:
    api.url, api.library, api.counts, api.faults, api.records_at(instant)
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.standins.arxiv import Arxiv
from tests.standins.counts import Counts
from tests.standins.crossref import Crossref
from tests.standins.doaj import Doaj
from tests.standins.europepmc import EuropePmc
from tests.standins.faults import LEVELS, Faults
from tests.standins.generic import Generic
from tests.standins.library import Entry, Habits, Library
from tests.standins.oai import Oai
from tests.standins.openalex import PASS, OpenAlex
from tests.standins.pubmed import Pubmed
from tests.standins.standin import KEY, Options, Shown, Standin

__all__ = (
    "KEY", "NAMES", "Entry", "Faults", "Habits", "Library", "Options", "Served", "Shown", "Standin",
    "overrides", "serve", "standin",
)  # fmt: skip

_KINDS: dict[str, type[Standin]] = {
    kind.name: kind for kind in (Pubmed, Crossref, EuropePmc, OpenAlex, Arxiv, Doaj, Oai, Generic)
}
_ALIASES = {"oai_pmh": "oai"}
NAMES = tuple(sorted(_KINDS))
_PATHS = {
    "pubmed": "/entrez/eutils",
    "crossref": "/v1",
    "europepmc": "/europepmc/webservices/rest",
    "openalex": "",
    "arxiv": "/api",
    "doaj": "/api",
    "oai": "/oai",
    "generic": "/none",
}


@dataclass(frozen=True, slots=True)
class Served:
    url: str
    library: Library
    counts: Counts
    api: Standin


@asynccontextmanager
async def standin(name: str, library: Library, **options: Any) -> AsyncIterator[Standin]:
    """Serves in this process. Options: faults, enforce_rate, latency, body_bytes, vanishing, clock, port, rate."""
    kind = _KINDS.get(_ALIASES.get(name, name))
    if kind is None:
        raise ValueError(f"there is no stand-in {name}; there are: {', '.join(NAMES)}")
    async with kind(library, Options(**options)).running() as api:
        yield api


@asynccontextmanager
async def serve(
    name: str, *, records: int = 20_000, days: float = 30, seed: int = 0, faults: str = "none", **options: Any
) -> AsyncIterator[Served]:
    """A library that ends a day from now and moves with the clock, so that the last days can be harvested at once."""
    end = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(days=1)
    library = Library(records, days=days, seed=seed, start=end - timedelta(days=days))
    library.follow(lambda: datetime.now(UTC))
    async with standin(name, library, faults=LEVELS[faults](seed), **options) as api:
        yield Served(api.url, library, api.counts, api)


def overrides(name: str, url: str, *, detail: bool | None = None) -> dict[str, Any]:
    """What a run must say to be pointed at the stand-in instead of the service. No credential is needed then.

    `detail` says the same of the linked endpoint: needed where a run fetches by id, refused where it does not. Without
    a word it is there for sources that always do.
    """
    known = _ALIASES.get(name, name)
    http: dict[str, Any] = {"baseUrl": url + _PATHS[known], "allowHttp": True}
    sections: dict[str, Any] = {"http": http}
    if known == "openalex":
        http["headersTemplate"] = {PASS: "yes"}  # a run must not carry a key
    if known in ("openalex", "pubmed"):
        sections["auth"] = {"type": "NONE", "required": False, "credentialRef": None}
    if known == "pubmed" if detail is None else detail:
        return {**sections, "detail": sections}
    return sections
