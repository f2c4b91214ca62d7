"""Plans that somebody orders from afar: what their runs may say, and that one key means one order.

Invariant: such a run changes how its work is cut and may slow it down, nothing else. Where requests go and which
credential goes with them is the registry's word alone.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.harvest.desk import HarvestDesk
from penstock.harvest.planning import Outcome, Preview, Trigger
from penstock.harvest.planning import store as plans
from penstock.harvest.planning.remarks import instance_columns
from penstock.harvest.spec import RateLimit
from penstock.kernel import error_codes, json
from penstock.kernel.errors import PenstockError

RATES = ("qps", "burst")


async def place(desk: HarvestDesk, trigger: Trigger) -> Outcome:
    """IDEMPOTENCY_KEY_REUSED when the key belongs to another order, also to one that came at the same time."""
    await check(desk, trigger)
    if trigger.idempotent_key is not None:
        await _take_key(desk, trigger, trigger.idempotent_key)
    return await desk.planner.plan(trigger)


async def preview(desk: HarvestDesk, trigger: Trigger) -> Preview:
    await check(desk, trigger)
    return await desk.planner.preview(trigger)


async def check(desk: HarvestDesk, trigger: Trigger) -> None:
    """HARVEST_WINDOW_INVALID; SPEC_INVALID for a run that is faster than the registry allows."""
    if trigger.since is not None and trigger.until is not None and trigger.since >= trigger.until:
        raise PenstockError(
            error_codes.HARVEST_WINDOW_INVALID, reason="since is not earlier than until",
            since=trigger.since.isoformat(), until=trigger.until.isoformat(),
        )  # fmt: skip
    rates: Mapping[str, Any] = trigger.run.get("rateLimit", {})
    if not rates:
        return
    registered = (await desk.compile(replace(trigger, run={}))).spec.rate_limit
    problems = [_too_much(name, getattr(registered, name)) for name in RATES if _exceeds(name, rates, registered)]
    if problems:
        raise PenstockError(error_codes.SPEC_INVALID, source=trigger.provenance_code, problems=problems)


def _exceeds(name: str, rates: Mapping[str, Any], registered: RateLimit) -> bool:
    given = rates.get(name)
    return given is not None and given > getattr(registered, name)


def _too_much(name: str, most: float) -> dict[str, Any]:
    return {
        "rule": "run", "key": f"rateLimit.{name}", "origin": "this run",
        "message_zh": f"单次运行只能更慢：登记的上限是 {most:g}",
        "message_en": f"a run may only be slower: the source is registered with {most:g}",
    }  # fmt: skip


async def _take_key(desk: HarvestDesk, trigger: Trigger, key: str) -> None:
    """The trigger's row is written before anything is planned: a key means the order that came first."""
    async with desk.database.transaction() as tx:
        await plans.insert_instance(tx, instance_columns(trigger))
        known = await plans.instance_by_key(tx, key)
    asked = (trigger.provenance_code, str(trigger.operation), json.loads(json.dumps(trigger.described())))
    same = asked == (known["provenance_code"], known["operation_code"], known["trigger_params"])
    if not same or trigger.endpoint_name not in (None, known["endpoint_name"]):
        raise PenstockError(error_codes.IDEMPOTENCY_KEY_REUSED)
