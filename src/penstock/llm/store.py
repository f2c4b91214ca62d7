"""The account of calls: one row for every request that was sent."""

from dataclasses import asdict, dataclass

from penstock.kernel.db import Tx
from penstock.kernel.retention import Retained

# Old rows move to the object store. Budgets do not count them: those have sums of their own, day by day.
LLM_CALLS = Retained(
    "llm_call", id="call_id", time="created_at", entity_type="subject_type", entity_id="subject_id"
)  # fmt: skip
_INSERT = """
insert into llm_call (merchant_id, subject_type, subject_id, purpose, prompt_version, model, outcome, finish_reason,
                      prompt_tokens, output_tokens, is_estimated, cost_micro_usd, latency_ms, retries, request_id)
values (%(merchant_id)s, %(subject_type)s, %(subject_id)s, %(purpose)s, %(prompt_version)s, %(model)s, %(outcome)s,
        %(finish_reason)s, %(prompt_tokens)s, %(output_tokens)s, %(is_estimated)s, %(cost_micro_usd)s, %(latency_ms)s,
        %(retries)s, %(request_id)s)
"""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """As in the table."""

    merchant_id: str | None
    subject_type: str
    subject_id: str
    purpose: str
    prompt_version: str
    model: str
    outcome: str
    retries: int
    latency_ms: int
    finish_reason: str | None = None
    prompt_tokens: int = 0
    output_tokens: int = 0
    is_estimated: bool = False
    cost_micro_usd: int = 0
    request_id: str | None = None


async def record_call(tx: Tx, record: CallRecord) -> None:
    await tx.execute(_INSERT, asdict(record))
