"""Plug-in sinks are found through their entry point, as an installed package declares it."""

import sys
from pathlib import Path

import pytest
from tests.support.outlets import receivers, relay_all

from penstock.kernel import sinks
from penstock.kernel.deliveries import Deliveries, DeliverySettings
from penstock.kernel.events import Event
from penstock.kernel.outbox import announce

_PLUGIN = """
heard = []

class Kafka:
    name = "kafka"

    def wants(self, event_type):
        return event_type.startswith("job.")

    async def send(self, event):
        heard.append(event.event.entity_id)
"""


@pytest.fixture
def installed_plugin(tmp_path: Path, monkeypatch):
    """A package on the path, with the metadata that pip would have written."""
    (tmp_path / "kafka_sink.py").write_text(_PLUGIN)
    metadata = tmp_path / "kafka_sink-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kafka-sink\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[penstock.sinks]\nkafka = kafka_sink:Kafka\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("kafka_sink", None)


class TestPlugins:
    async def test_an_installed_sink_hears_the_events_it_wants(self, database, installed_plugin):
        to = receivers(plugins=sinks.installed())
        async with database.transaction() as tx:
            await announce(tx, Event("job.done", "job", "j1"), Event("page.done", "page", "p1"))
        await relay_all(database, to)
        await Deliveries(database, to, DeliverySettings(), owner="w").drain()
        assert sys.modules["kafka_sink"].heard == ["j1"]

    def test_nothing_installed_means_no_sinks(self):
        assert sinks.installed() == {}
