"""A registered source, an endpoint and an operation become one immutable snapshot with its hashes.

Pure: the same input gives the same snapshot and the same hashes on any machine. What cannot work is refused here with
every problem named, so that nothing is planned that fails at three in the night.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.harvest.compiling import checks
from penstock.harvest.compiling.canonical import fingerprint
from penstock.harvest.compiling.merge import STRENGTH, Level, Merged, Origin, merge
from penstock.harvest.compiling.problems import Case, Part, Problem, Source, Terms
from penstock.harvest.compiling.prototype import prototype
from penstock.harvest.compiling.templates import mention
from penstock.harvest.spec import Operation, PageType, Sections, Spec
from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError

_TERMS = Terms()
_THIS_RUN = "this run"


@dataclass(frozen=True, slots=True)
class Compiled:
    spec: Spec
    snapshot: dict[str, Any]
    expr_proto_hash: str  # of what changes requests, or how answers are read
    spec_fingerprint: str  # of the whole snapshot
    origins: Mapping[str, Origin]  # one for each leaf of the snapshot's sections
    removed: Mapping[str, Origin]  # keys that a null took away
    warnings: list[str]  # what works, but not as well as it could


def compile_spec(
    source: Source,
    endpoint_name: str,
    operation: Operation,
    run: Mapping[str, Any] | None = None,
    terms: Terms = _TERMS,
) -> Compiled:
    """ENDPOINT_UNKNOWN; SPEC_INVALID with every problem; HARVEST_UPDATE_IMPOSSIBLE. In `run`, the key `detail` holds
    what this run says of the linked endpoint."""
    if endpoint_name not in source.endpoints:
        raise PenstockError(error_codes.ENDPOINT_UNKNOWN, endpoint=endpoint_name, endpoints=sorted(source.endpoints))
    main, detail, problems = _parts(source, endpoint_name, operation, run or {})
    refused = {problem.key for problem in problems}  # said once is enough
    case = Case(source, operation, main, detail, terms)
    found = checks.check(case)
    problems += [problem for problem in found if problem.key not in refused]
    if problems:
        raise PenstockError(error_codes.SPEC_INVALID, problems=[problem.told() for problem in problems])
    if operation is Operation.UPDATE and detail is None and not mention(main.sections, "ids"):
        raise PenstockError(error_codes.HARVEST_UPDATE_IMPOSSIBLE, endpoint=endpoint_name)
    return _compiled(case)


def check_source(source: Source, terms: Terms = _TERMS) -> list[dict[str, Any]]:
    """Every problem of every endpoint, for the one thing that it must be able to do: a DETAIL endpoint answers for ids,
    any other is harvested."""
    problems: dict[str, dict[str, Any]] = {}
    for name, endpoint in source.endpoints.items():
        try:
            compile_spec(source, name, Operation.UPDATE if endpoint.role == "DETAIL" else Operation.HARVEST, {}, terms)
        except PenstockError as refused:
            if refused.code is not error_codes.SPEC_INVALID:
                raise
            problems |= {problem["message_en"]: problem for problem in refused.details["problems"]}
    return list(problems.values())


def _parts(
    source: Source, endpoint_name: str, operation: Operation, run: Mapping[str, Any]
) -> tuple[Part, Part | None, list[Problem]]:
    merged, levels = _merged(source, endpoint_name, {key: run[key] for key in run if key != "detail"})
    role, is_update = source.endpoints[endpoint_name].role, operation is Operation.UPDATE
    first, _ = checks.read(merged, levels)
    two_phase = first.batching.two_phase
    linked = two_phase.linked_endpoint if two_phase.enabled or (is_update and not mention(first, "ids")) else None
    detail: Part | None = None
    problems: list[Problem] = []
    of_detail = run.get("detail", {})
    if linked is not None and linked in source.endpoints and linked != endpoint_name and isinstance(of_detail, Mapping):
        below = _merged(source, linked, of_detail)
        _share_batch_size(merged, below[0])
        _lend_times(merged, below[0])
        sections, problems = checks.read(*below, "detail.")
        detail = Part(linked, source.endpoints[linked].role, below[1], sections, below[0], "detail.", by_id=True)
    elif of_detail != {}:
        merged.unknown["detail"] = Origin("run", _THIS_RUN, of_detail)
    sections, own = checks.read(merged, levels)
    by_id, ids_only = is_update or role == "DETAIL", two_phase.enabled or detail is not None
    main = Part(endpoint_name, role, levels, sections, merged, by_id=by_id, ids_only=ids_only)
    return main, detail, [*own, *problems]


def _merged(source: Source, endpoint_name: str, run: Mapping[str, Any]) -> tuple[Merged, tuple[Level, ...]]:
    endpoint = source.endpoints[endpoint_name]
    levels = source.levels(endpoint_name)
    link = {"batching": {"twoPhase": {"linkedEndpoint": endpoint.linked_endpoint}}}
    if endpoint.linked_endpoint is not None and not any(level.sections == link for level in levels):
        levels = [Level("endpoint", levels[-1].origin if levels else source.provenance_code, link), *levels]
    whole = (*levels, Level("run", _THIS_RUN, run))
    return merge(whole), whole


def _share_batch_size(main: Merged, detail: Merged) -> None:
    """Ids are asked for in one size, whichever of the two endpoints says it; of equally strong words, the detail's."""
    key = "batching.idBatchSize"
    if key not in main.origins or key not in detail.origins:
        return  # one of the sections is not a section: refused elsewhere
    said = max(detail.origins[key], main.origins[key], key=lambda origin: STRENGTH.index(origin.level))
    for merged in (main, detail):
        merged.origins[key] = said
        merged.sections["batching"]["idBatchSize"] = said.value


def _lend_times(main: Merged, detail: Merged) -> None:
    """How late and how coarse a source's times are need be said once, where it is searched.

    A built-in lag would otherwise hold back lists that say a shorter one; and records fetched by id, which have no
    window to take a time from, would get one that wins over the window in which their next change is found.
    """
    for name in ("safetyLag", "granularity"):
        lent, kept = main.origins.get(f"window.{name}"), detail.origins.get(f"window.{name}")
        if lent is not None and kept is not None and kept.level == "platform":
            detail.origins[f"window.{name}"] = lent
            detail.sections["window"][name] = lent.value


def _compiled(case: Case) -> Compiled:
    source, main, detail = case.source, case.main, case.detail
    spec = Spec.read(
        {
            **_dumped(main.sections),
            "provenanceCode": source.provenance_code,
            "endpointName": main.endpoint_name,
            "role": main.role,
            "operation": case.operation,
            "registryVersion": source.version,
            "allowsPrivate": case.terms.allows_private,
            "detail": _dumped(detail.sections) if detail else None,
            "detailEndpoint": detail.endpoint_name if detail else None,
        }
    )
    snapshot = spec.snapshot()
    return Compiled(
        spec=spec,
        snapshot=snapshot,
        expr_proto_hash=fingerprint(prototype(snapshot)),
        spec_fingerprint=fingerprint(snapshot),
        origins={**_origins(main.merged, snapshot), **(_origins(detail.merged, snapshot, "detail.") if detail else {})},
        removed={
            f"{part.prefix}{key}": origin
            for part in (main, detail)
            if part
            for key, origin in part.merged.removed.items()
        },
        warnings=_warnings(spec),
    )


def _dumped(sections: Sections) -> dict[str, Any]:
    return sections.model_dump(mode="json", by_alias=True)


def _origins(merged: Merged, snapshot: dict[str, Any], prefix: str = "") -> dict[str, Origin]:
    """With the values as the snapshot has them: `10m` in a file is PT10M."""
    whole = snapshot["detail"] if prefix else snapshot
    return {f"{prefix}{key}": replace(origin, value=_at(whole, key)) for key, origin in sorted(merged.origins.items())}


def _at(value: Any, key: str) -> Any:
    """Keys of templates may hold dots themselves: the longest name that is there counts."""
    if key in value:
        return value[key]
    head, _, rest = key.partition(".")
    return _at(value[head], rest)


def _warnings(spec: Spec) -> list[str]:
    if spec.operation is Operation.UPDATE:
        return ["updatedAtWithoutWindow"] if (spec.detail or spec).response.updated_at_from == "WINDOW" else []
    by_size = spec.pagination.type in {PageType.OFFSET, PageType.PAGE, PageType.TIME}
    degraded = {
        "noCount": spec.count is None and spec.response.total_path is None,
        "hasNextByPageSize": by_size and spec.pagination.has_more_path is None,
        "clientFilter": not spec.window.supports_updated_since,
        "orderNotStated": spec.pagination.order_by is None,
        "updatedAtFromWindow": (spec.detail or spec).response.updated_at_from == "WINDOW",
    }
    return [name for name, applies in degraded.items() if applies]
