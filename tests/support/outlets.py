"""Receivers for tests, wired as bootstrap wires the real ones."""

from penstock.kernel import webhooks
from penstock.kernel.deliveries import Receivers
from penstock.kernel.reactions import Reaction, Reactions
from penstock.kernel.relay import Outlets, Relay, RelaySettings
from penstock.kernel.sinks import Sink


async def no_webhook(endpoint_id: str):
    return None


async def no_streams(events) -> None: ...


def receivers(
    *reactions: Reaction, plugins: dict[str, Sink] | None = None, webhook=no_webhook, publish=no_streams
) -> Receivers:
    return Receivers(Reactions(reactions), plugins or {}, webhooks.rows_for, webhook, publish)


async def relay_all(database, to: Receivers) -> None:
    """Take everything out of the outbox."""

    async def wake(slot: int) -> None: ...

    relay = Relay(database, Outlets(to.publish, to.rows_for, wake), RelaySettings())
    idle = 0
    while idle < 3:
        idle = 0 if await relay.relay_once() else idle + 1
