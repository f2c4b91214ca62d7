"""Which records a refresh asks for again.

Invariant: a record that a task is waiting for or fetching is not chosen, nor one that the same plan has chosen before;
signals are marked in the transaction that queues their records, so that none is lost and none is taken up twice.
"""

import re

from penstock.harvest.planning import store_update
from penstock.harvest.planning.job import Job
from penstock.harvest.planning.slicing import Candidate
from penstock.harvest.planning.store_update import Choice
from penstock.harvest.planning.trigger import Candidates
from penstock.harvest.schedule_params import CandidateKind
from penstock.harvest.spec import Sections, Spec
from penstock.kernel import error_codes
from penstock.kernel.db import Tx
from penstock.kernel.errors import PenstockError

_ASKS_BY_ID = re.compile(r"\$\{[^}]*\bids\b")


def check_can_fetch_by_id(spec: Spec) -> None:
    if not any(_asks_by_id(sections) for sections in (spec, spec.detail) if sections is not None):
        raise PenstockError(
            error_codes.HARVEST_UPDATE_IMPOSSIBLE, source=spec.provenance_code, endpoint=spec.endpoint_name
        )


def _asks_by_id(sections: Sections) -> bool:
    http = sections.http
    templates = [http.path_template, *http.query_template.values(), *http.body_template.values()]
    templates += [param.expr or "" for param in sections.mapping.request_params]
    return any(_ASKS_BY_ID.search(template) for template in templates)


async def choose(tx: Tx, spec: Spec, wanted: Candidates, choice: Choice, expr_proto_hash: str) -> list[Candidate]:
    if choice.limit <= 0:
        return []
    if wanted.kind is CandidateKind.STALE:
        return await store_update.stale_records(tx, choice, spec.planning.stale_after)
    if wanted.kind is CandidateKind.EXPRESSION:
        return await store_update.outdated_records(tx, choice, expr_proto_hash)
    return await store_update.signalled_records(tx, choice)


async def choose_for(tx: Tx, job: Job, limit: int) -> list[Candidate]:
    wanted = job.candidates or Candidates()
    choice = Choice(job.spec.provenance_code, job.spec.endpoint_name, job.plan_id, limit)
    return await choose(tx, job.spec, wanted, choice, job.compiled.expr_proto_hash)


async def mark(tx: Tx, job: Job, ids: list[str]) -> None:
    """What was chosen because of a signal is taken up."""
    if (job.candidates or Candidates()).kind is CandidateKind.SIGNALS:
        choice = Choice(job.spec.provenance_code, job.spec.endpoint_name, job.plan_id, len(ids))
        await store_update.take_signals(tx, choice, ids)
