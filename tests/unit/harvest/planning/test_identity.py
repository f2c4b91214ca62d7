"""Names made of content: they change with what is asked for and with nothing else."""

import hashlib
from datetime import timedelta

from tests.support.planning import NOW, compiled

from penstock.harvest.planning import drafting
from penstock.harvest.planning.drafting import Draft, Plan
from penstock.harvest.slices import Bounds, Dimension, TimeBounds
from penstock.harvest.spec import Operation


def draft(hours: int = 1, **more) -> Draft:
    return Draft(Dimension.TIME, Bounds(time=TimeBounds(from_=NOW, to=NOW + timedelta(hours=hours))), **more)


def plan(trigger: int = 1, operation: Operation = Operation.HARVEST, **sections) -> Plan:
    made = compiled(operation, **sections)
    return Plan(made.spec, "sha256:proto", trigger, 100)


def hashed(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


class TestSignature:
    def test_estimates_budgets_and_comments_do_not_change_it(self):
        plain, told = drafting.written(plan(), draft()), drafting.written(plan(), draft(estimate=9, comment="halved"))
        assert plain.signature == told.signature
        assert plain.idempotent_key == told.idempotent_key

    def test_another_window_operation_or_parameter_is_another_slice(self):
        made = [
            drafting.written(plan(), draft()), drafting.written(plan(), draft(2)),
            drafting.written(plan(operation=Operation.BACKFILL), draft()),
            drafting.written(plan(params={"q": "x"}), draft()),
        ]  # fmt: skip
        assert len({each.signature for each in made}) == 4

    def test_it_is_made_of_canonical_json_and_so_the_same_on_every_machine(self):
        made = drafting.written(plan(7), draft())
        time = '"time":{"from":"2024-06-01T12:00:00Z","to":"2024-06-01T13:00:00Z"}'
        expression = hashed(f'{{"bounds":{{{time}}},"ids":[],"params":{{}},"protoHash":"sha256:proto"}}')
        window = (
            f'"bounds":{{{time}}},"dimension":"TIME","safetyLag":"PT10M","twoPhase":false,"watermarkKey":"updated_at"'
        )
        signature = hashed(f'["crossref","works","HARVEST","{expression}",{{{window}}}]')
        params = f'{{"bounds":{{{time}}},"params":{{}}}}'
        assert made.expr_hash == expression
        assert made.signature == signature
        assert made.idempotent_key == hashed(f'["{signature}","{expression}","HARVEST",7,{params}]')


class TestTaskKey:
    def test_another_trigger_may_make_the_same_slice_again(self):
        first, second = drafting.written(plan(1), draft()), drafting.written(plan(2), draft())
        assert first.signature == second.signature
        assert first.idempotent_key != second.idempotent_key
