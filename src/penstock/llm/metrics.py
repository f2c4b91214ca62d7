"""What is counted of calls to language models."""

from prometheus_client import Counter, Histogram

CALLS = Counter("penstock_llm_calls_total", "Calls to language models, by what became of them", ["model", "outcome"])
TOKENS = Counter("penstock_llm_tokens_total", "Tokens that were sent (prompt) and received (output)", ["model", "kind"])
COST = Counter("penstock_llm_cost_micro_usd_total", "What calls have cost, in micro-dollars", ["model"])
SECONDS = Histogram(
    "penstock_llm_call_seconds",
    "From sending a call to the last byte of its answer",
    ["model"],
    buckets=[0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320],
)
WAIT_SECONDS = Histogram(
    "penstock_llm_permit_wait_seconds",
    "Waiting for the rate limits of a model",
    ["model"],
    buckets=[0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60],
)
