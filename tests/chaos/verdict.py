"""What must be true when the dust has settled."""

from tests.chaos.load import Writer
from tests.chaos.stage import Stage


def settled(stage: Stage) -> bool:
    """Nothing left to relay, nothing left to deliver."""
    [(pending,)] = stage.query(
        "select (select count(*) from outbox_events where relayed_at is null)"
        " + (select count(*) from outbox_deliveries where done_at is null)"
    )
    return pending == 0


def judge(stage: Stage, writers: list[Writer]) -> dict[str, int]:
    """Raises if a promise was broken; returns what was counted."""
    moves = _nothing_lost(stage, writers)
    _effects_exactly_once_in_order(stage)
    repeats = _heard_at_least_once_in_order(stage)
    runs = _duty_written_once_per_claim(stage)
    return {"kills": stage.kills, "moves": moves, "heard_again": repeats, "duty_runs": runs}


def _nothing_lost(stage: Stage, writers: list[Writer]) -> int:
    """Every acknowledged move is in the table, in the history and in the outbox, without a hole."""
    steps = dict(stage.query("select id, step from chaos_things"))
    for writer in writers:
        for entity, acknowledged in writer.acknowledged.items():
            assert steps.get(entity, 0) >= acknowledged, f"{entity}: an acknowledged move is gone"
    history = dict(
        stage.query("select entity_id, count(*) from state_transitions where entity_type = 'thing' group by 1")
    )
    assert history == steps, "history and state disagree"
    events = stage.query(
        "select entity_id, array_agg((payload->>'step')::int order by event_id) from outbox_events"
        " where entity_type = 'thing' group by 1"
    )
    assert dict(events) == {entity: list(range(1, step + 1)) for entity, step in steps.items()}, (
        "events and state disagree"
    )
    return sum(steps.values())


def _effects_exactly_once_in_order(stage: Stage) -> None:
    effects = stage.query("select entity, array_agg(step order by id) from chaos_effects group by 1")
    steps = dict(stage.query("select id, step from chaos_things"))
    for entity, numbers in effects:
        assert numbers == list(range(1, steps[entity] + 1)), f"{entity}: effects {numbers[:20]}… of {steps[entity]}"
    assert {entity for entity, _ in effects} == set(steps)


def _heard_at_least_once_in_order(stage: Stage) -> int:
    repeats = 0
    steps = dict(stage.query("select id, step from chaos_things"))
    for entity, heard in stage.query("select entity, array_agg(step order by id) from chaos_heard group by 1"):
        first_times = list(dict.fromkeys(heard))
        assert first_times == list(range(1, steps[entity] + 1)), f"{entity}: heard {heard[:30]}…"
        repeats += len(heard) - len(first_times)
    return repeats


def _duty_written_once_per_claim(stage: Stage) -> int:
    tokens = [token for (token,) in stage.query("select token from chaos_duty order by id")]
    assert tokens == sorted(set(tokens)), "a duty wrote twice under one claim, or late"
    return len(tokens)
