"""What one run works on: the snapshot, the slice, the cursor that it may move, and where it begins."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from penstock.harvest.cursors import CursorName, Direction, Lineage, Scope
from penstock.harvest.executing import store
from penstock.harvest.executing.claim import Held
from penstock.harvest.executing.paging import Course
from penstock.harvest.executing.position import Position
from penstock.harvest.reading import Reader
from penstock.harvest.slices import LocalExpr, SliceSpec
from penstock.harvest.spec import CursorType, Operation, Sections, Spec
from penstock.kernel import json
from penstock.kernel.db import Tx

_checkpoints = msgspec.json.Decoder(Position)


@dataclass(frozen=True, slots=True)
class Compiled:
    """A snapshot, ready to be used; shared by all tasks of the same one."""

    spec: Spec
    lists: Reader
    details: Reader | None


@dataclass(frozen=True, slots=True)
class Work:
    held: Held
    course: Course
    readers: Compiled
    cursor: CursorName
    position: Position | None  # none: from the beginning
    row: Mapping[str, Any]

    @property
    def spec(self) -> Spec:
        return self.course.spec

    @property
    def details(self) -> Sections:
        return self.spec.detail or self.spec

    @property
    def partition(self) -> tuple[str, str, str]:
        return self.spec.provenance_code, self.spec.endpoint_name, str(self.spec.operation)

    def lineage(self, batch_id: int) -> Lineage:
        row = self.row
        return Lineage(
            row["schedule_instance_id"], row["plan_id"], row["slice_id"], self.held.task_id, self.held.run_id, batch_id,
            row["expr_hash"],
        )  # fmt: skip


async def load(tx: Tx, held: Held) -> Work:
    row = await store.load_work(tx, held.task_id, held.run_id)
    readers = _compiled(row["spec_fingerprint"], json.dumps(row["expr_proto_snapshot"]))
    spec = readers.spec
    local = LocalExpr.model_validate(row["expr_snapshot"])
    course = Course(spec, SliceSpec.model_validate(row["slice_spec"]), local)
    cursor = CursorName(
        spec.provenance_code, spec.endpoint_name, Operation(spec.operation), row["cursor_key"],
        CursorType(row["cursor_type_code"]), Scope(row["namespace_scope_code"]), row["namespace_key"],
        Direction(row["direction_code"]),
    )  # fmt: skip
    checkpoint = row["checkpoint"]
    position = None if checkpoint is None else _checkpoints.decode(json.dump_bytes(checkpoint))
    return Work(held, course, readers, cursor, position, row)


@lru_cache(maxsize=64)
def _compiled(fingerprint: str, snapshot: str) -> Compiled:  # noqa: ARG001  the shorter key is compared first
    spec = Spec.read(json.loads(snapshot))
    is_two_phase = spec.detail is not None and spec.batching.two_phase.enabled
    details = spec.detail
    return Compiled(spec, Reader(spec, ids_only=is_two_phase), None if details is None else Reader(details))
