"""Names made of content: the same slice, the same local expression, the same task have the same hash everywhere.

Invariant: what does not change the requests (estimates, budgets, comments) does not change a signature.
"""

from collections.abc import Mapping
from typing import Any

from penstock.harvest.compiling.canonical import fingerprint
from penstock.harvest.slices import LocalExpr, SliceSpec
from penstock.harvest.spec import Spec

_BESIDE_THE_POINT = {"budget", "totalEstimated", "comment"}


def expr_hash(local: LocalExpr) -> str:
    return fingerprint(local.stored())


def slice_signature_hash(spec: Spec, made: SliceSpec, expression: str) -> str:
    normalized = {name: value for name, value in made.stored().items() if name not in _BESIDE_THE_POINT}
    return fingerprint([spec.provenance_code, spec.endpoint_name, spec.operation, expression, normalized])


def task_key(signature: str, expression: str, operation: str, trigger: int, params: Mapping[str, Any]) -> str:
    """One trigger makes one task of a slice, however often it is planned; another trigger may make it again."""
    return fingerprint([signature, expression, operation, trigger, dict(params)])


def activity_key(spec: Spec, since: str | None, until: str | None) -> str:
    """The same backfill asked for twice is one, and goes on."""
    asked = [spec.provenance_code, spec.endpoint_name, since, until, spec.params]
    return f"backfill-{fingerprint(asked).removeprefix('sha256:')}"
