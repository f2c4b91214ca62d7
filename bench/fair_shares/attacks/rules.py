"""Attacks with rules: schemas that are slow to check, labels that are slow to compare, and tasks that use both."""

import itertools
import json
from typing import Any

from bench.direct_clients import Answer
from bench.fair_shares.attacks.effort import Effort
from bench.fair_shares.pdfs import text_pdf

_names = itertools.count()
_STRINGS = {"type": "string"}


def _rule(schema: dict[str, Any], result: Any = None, **more: Any) -> dict[str, Any]:
    examples = [] if result is None else [{"text": "a text", "result": result}]
    return {
        "name": f"slow {next(_names)}", "postprocess_mode": "rules", "json_schema": schema, "examples": examples, **more
    }  # fmt: skip


def _costly() -> list[dict[str, Any]]:
    """Each is within the limits on size and number of subschemas."""
    unsortable: list[Any] = [part for n in range(4_000) for part in (n, f"s{n}")]
    elements = [1] * 15_000
    return [
        _rule({"type": "object", "required": unsortable}),
        _rule({"type": "array", "items": {"enum": [2] * 2_000 + [1]}}, elements[:2_000]),
        _rule({"type": "array", "items": {"allOf": [{"minimum": 0}] * 4_900}}, elements),
        _rule({"type": "object", "properties": {f"property{n}": _STRINGS for n in range(4_900)}}),
    ]


async def write_rules(effort: Effort) -> None:
    """The four costliest rules, again and again."""

    async def write(number: int) -> Answer | str:
        costly = _costly()
        return await effort.merchant.post("/api/v1/etl/rules", costly[number % len(costly)])

    effort.in_force_after(1.0)
    await effort.keep_up("rule", 8, write)


async def try_rules(effort: Effort) -> None:
    """A rule of 1,000 labels tried on a text of 350 lines, each of which has to be compared with each label."""
    label = "quarterly consolidated statement of the amount due in respect of item"
    schema = {
        "type": "object",
        "properties": {f"p{n}": {"type": "string", "title": f"{label} {n}"} for n in range(1_000)},
    }
    rule = await _written(effort, _rule(schema))
    text = "\n".join(f"{label[::-1]} {n:04}: value" for n in range(300))[:20_000]

    async def attempt(number: int) -> Answer | str:  # noqa: ARG001  all do the same
        return await effort.merchant.post(f"/api/v1/etl/rules/{rule}/try", {"text": text})

    effort.in_force_after(2.0)
    await effort.keep_up("try", 16, attempt)


async def run_rules(effort: Effort) -> None:
    """Tasks of one page each, whose list is held against a schema of 1,000 parts."""
    schema = {
        "type": "object",
        "properties": {"list": {"type": "array", "items": {"allOf": [{"type": "string", "minLength": 1}] * 1_000}}},
    }
    rule = await _written(effort, _rule(schema))
    content = "list: " + ",".join(["ab"] * 2_500)

    async def submit(number: int) -> Answer | str:  # noqa: ARG001  all do the same
        await effort.merchant.submit_task(text_pdf(content), rule)
        return "202"

    effort.in_force_after(3.0)
    await effort.keep_up("task", 6, submit)


async def _written(effort: Effort, rule: dict[str, Any]) -> int:
    answer = (await effort.merchant.post("/api/v1/etl/rules", rule)).expect(201)
    return int(json.loads(answer.body)["rule_id"])
