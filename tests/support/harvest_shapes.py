"""What kind of source a history has: how it pages, how it reads bounds, what it counts; and the file that says so."""

import json
import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.harvest.registry.document import SourceDocument, read_source

_ALIGN = {"sec": 1, "min": 60, "hour": 3600, "day": 86400}
_BELIEVED = 86400  # a clock that is further behind is taken for an old copy of an answer, or for a made-up date
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMAT = '${formatDateTime(window.%s, "%%Y-%%m-%%dT%%H:%%M:%%SZ")}'


@dataclass(frozen=True, slots=True)
class Shape:
    """Seconds, where nothing else is said. `behind`: how far the source's clock is behind ours."""

    kind: str  # offset page0 page1 token url time
    page_size: int
    inclusive: bool
    granularity: int
    align: str
    units: int  # maxWindow, in steps that align and granularity share
    lag: int
    overlap: int
    behind: int
    ceiling: int | None
    has_total: bool
    counts: bool
    two_phase: bool
    id_batch: int
    slice_items: int

    @property
    def unit(self) -> int:
        return math.lcm(_ALIGN[self.align], self.granularity)

    @property
    def shifts(self) -> bool:
        """Pages are counted from the first result: when one leaves, those behind it move up."""
        return self.kind in {"offset", "page0", "page1"}

    @property
    def unseen_lag(self) -> int:
        """How far the clock is behind without anybody being able to know it from an answer; see `_BELIEVED`."""
        return self.behind if self.behind > _BELIEVED else 0

    @property
    def most_per_step(self) -> int | None:
        if self.kind == "time":
            return min(self.page_size, self.ceiling or self.page_size) - 1
        return None if self.ceiling is None else self.ceiling // self.page_size * self.page_size - 1

    def floor(self, moment: datetime) -> datetime:
        step = timedelta(seconds=self.granularity)
        return _EPOCH + (moment - _EPOCH) // step * step

    def document(self, code: str, url: str, page_size: int) -> SourceDocument:
        written = {
            "source": code,
            "name": "Model",
            "defaults": {
                "http": {"baseUrl": url, "allowHttp": True},
                "rateLimit": {"qps": 100000, "burst": 10000},
                "retry": {"maxAttempts": 1},
                "response": {
                    "itemsPath": "$.items", "idPath": "$.id", "updatedAtPath": "$.updated",
                    "versionPath": "$.version", "deletedPath": "$.deleted", "deletedValue": "yes",
                },
                "batching": {"idBatchSize": self.id_batch},
            },
            "endpoints": {
                "works": self._works(page_size),
                "details": {
                    "role": "DETAIL", "window": {"safetyLag": f"PT{self.lag}S"},
                    "http": {"pathTemplate": "/details", "queryTemplate": {"ids": '${join(ids, ",")}'}},
                },
            },
        }  # fmt: skip
        return read_source(json.dumps(written).encode(), f"{code}.yaml")

    def _works(self, page_size: int) -> dict[str, Any]:
        query = {"from": _FORMAT % "from", "to": _FORMAT % "to", "limit": "${page.size}"}
        paging: dict[str, Any] = {"type": self.kind.rstrip("01").upper(), "pageSize": page_size}
        if self.ceiling is not None:
            paging["ceiling"] = self.ceiling
        if self.kind == "offset":
            query["offset"] = "${page.offset}"
        elif self.kind == "token":
            query["after"] = "${page.token}"
            paging["nextTokenPath"] = "$.next"
        elif self.kind == "url":
            paging["nextUrlPath"] = "$.next"
        elif self.kind != "time":
            query["page"] = "${page.no}"
            paging["base1"] = self.kind == "page1"
        sections: dict[str, Any] = {
            "default": True, "linkedEndpoint": "details", "http": {"pathTemplate": "/works", "queryTemplate": query},
            "pagination": paging, "window": self._window(), "mapping": {"sink": True},
            "batching": {"twoPhase": {"enabled": self.two_phase}},
            "planning": {"cMax": 4, "sliceItems": self.slice_items, "staleAfter": "PT0S"},
        }  # fmt: skip
        if self.has_total:
            sections["response"] = {"totalPath": "$.total"}
        if self.counts:
            sections["count"] = {"queryTemplate": {"limit": "1"}}
        return sections

    def _window(self) -> dict[str, Any]:
        return {
            "supportsUpdatedSince": True, "watermarkKey": "updated", "earliest": "2024-03-01T00:00:00Z",
            "bounds": "INCLUSIVE" if self.inclusive else "HALF_OPEN", "granularity": f"PT{self.granularity}S",
            "minWindow": f"PT{self.granularity}S", "maxWindow": f"PT{self.unit * self.units}S", "align": self.align,
            "safetyLag": f"PT{self.lag}S", "overlap": f"PT{self.overlap}S",
        }  # fmt: skip


def random_shape(dice: random.Random) -> Shape:
    granularity = dice.choice([1, 1, 60, 86400])
    align = dice.choice([name for name, seconds in _ALIGN.items() if seconds <= 60 or granularity > 1])
    unit = math.lcm(_ALIGN[align], granularity)
    kind = dice.choice(["offset", "page0", "page1", "token", "url", "time"])
    page_size = dice.choice([3, 5, 20] if kind == "time" else [1, 2, 3, 3, 5, 20])
    ceiling = dice.choice([None, None, dice.randint(2, 12)])
    if ceiling is not None:
        ceiling = max(ceiling, 2 * page_size)
    has_total = dice.random() < 0.5
    return Shape(
        kind, page_size, dice.random() < 0.5, granularity, align, dice.randint(1, 6),
        lag=dice.choice([0, granularity, 3 * granularity, unit, 2 * unit + 1, 4 * unit]),
        overlap=dice.choice([0, 0, granularity, unit, 3 * unit]),
        behind=dice.choice([0, 0, 0, -2 * unit, 10, min(3 * unit + 10, _BELIEVED), 3 * unit + 10]),
        ceiling=ceiling, has_total=has_total, counts=has_total and dice.random() < 0.4,
        two_phase=dice.random() < 0.3, id_batch=dice.choice([1, 2, 5]), slice_items=dice.choice([2, 10, 1000]),
    )  # fmt: skip
