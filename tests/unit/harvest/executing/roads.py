"""Courses and pages for tests of paging."""

from datetime import UTC, datetime, timedelta
from typing import Any

from penstock.harvest.executing.paging import Course
from penstock.harvest.executing.position import Overflow, Position
from penstock.harvest.executing.tally import Tally
from penstock.harvest.page import Page
from penstock.harvest.slices import LocalExpr, SliceSpec, Span
from penstock.harvest.spec import Spec

START = datetime(2024, 5, 1, tzinfo=UTC)
DAY = Span(START, START + timedelta(days=1))


def course(*, bounds: dict[str, Any] | None = None, dimension: str = "TIME", **sections: Any) -> Course:
    spec = Spec.model_validate(
        {"provenanceCode": "s", "endpointName": "e", "operation": "HARVEST", "registryVersion": 1, **sections}
    )
    bounds = bounds or {"time": {"from": DAY.start, "to": DAY.end}}
    made = SliceSpec.model_validate({"dimension": dimension, "bounds": bounds})
    return Course(spec, made, LocalExpr(proto_hash="", bounds=made.bounds, ids=tuple(sections.pop("ids", ()))))


def page(served: int, first: int = 0, **facts: Any) -> Page:
    return Page(ids=[str(first + n) for n in range(served)], served=served, **facts)


def walk(road: Course, answers: list[Page]) -> list[Position | Overflow]:
    """Feed the answers in turn; returns the positions after each."""
    position, tally, positions = road.begin(), Tally(), []
    for answer in answers:
        tally.note(answer.ids, position.reading)
        following = road.after_list(position, answer, tally.found(position.reading), START)
        positions.append(following)
        if isinstance(following, Overflow):
            break
        position = following
    return positions
