"""What the HTTP edge needs to be given: bootstrap's parts fit, and so does anything with these attributes."""

from typing import Protocol

from penstock.kernel.clock import Clock
from penstock.kernel.db import Database
from penstock.kernel.health import Health
from penstock.kernel.identity import Identity, IdentitySettings
from penstock.kernel.runtime import RuntimeSettings
from penstock.kernel.streams import StreamHub
from penstock.kernel.webhooks import WebhookSettings


class EdgeSettings(Protocol):
    """The settings groups that are read here."""

    @property
    def runtime(self) -> RuntimeSettings: ...

    @property
    def identity(self) -> IdentitySettings: ...

    @property
    def webhooks(self) -> WebhookSettings: ...


class Parts(Protocol):
    """Built once per process, shared by all requests."""

    @property
    def settings(self) -> EdgeSettings: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def database(self) -> Database: ...

    @property
    def identity(self) -> Identity: ...

    @property
    def health(self) -> Health: ...

    @property
    def hub(self) -> StreamHub: ...
