"""Rule 4: where ids are fetched first and details second, both endpoints and the sizes between them are there."""

from collections.abc import Iterator

from penstock.harvest.compiling.problems import Case, Complaint, Found, Part, Rule
from penstock.harvest.compiling.templates import mention

_LINK = "batching.twoPhase.linkedEndpoint"


def _check(case: Case) -> Found:
    for part in case.parts:
        for complaint in _sizes(part):
            yield part, complaint
    two_phase = case.main.sections.batching.two_phase
    if two_phase.enabled and case.main.role != "SEARCH":
        yield (
            case.main,
            Complaint(
                "batching.twoPhase.enabled", "只有 SEARCH 端点可以两段式拉取", "only a SEARCH endpoint can list ids"
            ),
        )
    for complaint in _link(case):
        yield case.main, complaint
    for part in case.parts:
        if part.role == "DETAIL" or part is case.detail:
            for complaint in _detail(part):
                yield part, complaint


def _sizes(part: Part) -> Iterator[Complaint]:
    batching = part.sections.batching
    size, limit = batching.id_batch_size, batching.max_id_batch_size
    if limit is not None and size > limit:
        yield Complaint(
            "batching.idBatchSize",
            f"idBatchSize {size} 超过 maxIdBatchSize {limit}",
            f"idBatchSize {size} is more than maxIdBatchSize {limit}",
        )
    if batching.two_phase.enabled and batching.two_phase.threshold > size:
        yield Complaint(
            "batching.twoPhase.threshold", "threshold 超过 idBatchSize", "threshold is more than idBatchSize"
        )


def _link(case: Case) -> Iterator[Complaint]:
    two_phase = case.main.sections.batching.two_phase
    linked = two_phase.linked_endpoint
    if linked is None:
        if two_phase.enabled:
            yield Complaint(_LINK, "两段式需要详情端点", "two phases need an endpoint for the details")
    elif linked not in case.source.endpoints:
        yield Complaint(_LINK, f"没有端点 {linked}", f"there is no endpoint {linked}")
    elif case.source.endpoints[linked].role != "DETAIL":
        yield Complaint(_LINK, f"端点 {linked} 不是 DETAIL", f"the endpoint {linked} is not a DETAIL endpoint")


def _detail(detail: Part) -> Iterator[Complaint]:
    if not mention(detail.sections, "ids"):
        yield Complaint("http.queryTemplate", "详情端点没有模板使用 ids", "no template of the detail endpoint uses ids")
    if detail.sections.batching.two_phase.enabled:
        yield Complaint(
            "batching.twoPhase.enabled", "详情端点自己不能再分两段", "a detail endpoint has no second phase of its own"
        )


PHASES = Rule(4, "twoPhase", "两段式配置成对完整", "two-phase settings come in whole pairs", _check)
