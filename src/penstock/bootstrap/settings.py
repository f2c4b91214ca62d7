"""Every group of settings, read once."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from penstock import documents
from penstock.documents.orphan_settings import OrphanSettings
from penstock.embedded.bucket.settings import BucketSettings
from penstock.extraction.providers.mineru.settings import MineruSettings
from penstock.extraction.settings import EtlSettings
from penstock.harvest.settings import HarvestSettings
from penstock.kernel.client import ClientSettings
from penstock.kernel.deliveries import DeliverySettings
from penstock.kernel.health import HealthSettings
from penstock.kernel.identity import IdentitySettings
from penstock.kernel.rategate import GateSettings
from penstock.kernel.relay import RelaySettings
from penstock.kernel.retention import RetentionSettings
from penstock.kernel.runtime import RuntimeSettings
from penstock.kernel.sandbox import SandboxSettings
from penstock.kernel.scheduler import SchedulerSettings
from penstock.kernel.settings import SettingsFile, SettingsGroup
from penstock.kernel.streams import (
    StreamSettings,
)
from penstock.kernel.telemetry import TelemetrySettings
from penstock.kernel.webhooks import WebhookSettings
from penstock.kernel.workers import WorkerSettings
from penstock.llm import LlmSettings
from penstock.pdf import PdfSettings
from penstock.pdf.ocr.settings import OcrSettings
from penstock.uploads.direct.settings import DirectSettings
from penstock.uploads.tus import UploadSettings


@dataclass(frozen=True, slots=True)
class Settings:
    """Every group of settings; `penstock config` shows them in this order."""

    runtime: RuntimeSettings
    identity: IdentitySettings
    client: ClientSettings
    streams: StreamSettings
    workers: WorkerSettings
    uploads: UploadSettings
    direct: DirectSettings
    bucket: BucketSettings
    orphans: OrphanSettings
    relay: RelaySettings
    scheduler: SchedulerSettings
    deliveries: DeliverySettings
    webhooks: WebhookSettings
    gate: GateSettings
    sandbox: SandboxSettings
    pdf: PdfSettings
    ocr: OcrSettings
    health: HealthSettings
    retention: RetentionSettings
    telemetry: TelemetrySettings
    documents: documents.DocumentSettings
    harvest: HarvestSettings
    etl: EtlSettings
    mineru: MineruSettings
    llm: LlmSettings

    @property
    def store_url(self) -> str:
        """Where objects are; without a setting, below the home directory."""
        return self.runtime.store_url.rstrip("/") or (self.runtime.home.resolve() / "store").as_uri()


GROUPS: Mapping[str, type[SettingsGroup]] = {field.name: field.type for field in fields(Settings)}  # type: ignore[misc]


def load_settings(file: SettingsFile | None = None, **runtime: Any) -> Settings:
    """Read all groups; keyword arguments override the runtime group. A wrong value raises SettingsError."""
    source = file or SettingsFile.find()
    source.refuse_unknown(tuple(GROUPS.values()))
    loaded = {name: source.load(group, **(runtime if name == "runtime" else {})) for name, group in GROUPS.items()}
    return Settings(**loaded)  # type: ignore[arg-type]
