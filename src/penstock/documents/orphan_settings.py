"""Settings of going through pages: how work is held, remembered, and rescued when its worker dies."""

from datetime import timedelta
from typing import ClassVar

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from penstock.kernel.settings import SettingsGroup


class OrphanSettings(SettingsGroup):
    """Jobs whose worker died, and how far a job has come."""

    model_config = SettingsConfigDict(env_prefix="GW_")
    without_effect: ClassVar = {
        "GW_ORPHAN_SCAN_LOCK_TTL_SEC": "the scan takes no lock; each job is claimed in the database"
    }

    orphan_scan_interval_sec: timedelta = Field(
        timedelta(seconds=60), description="Time between two looks for jobs whose worker is dead"
    )
    orphan_requeue_max: int = Field(
        3, ge=0, description="Most times in 24 hours that a job is requeued before an operator must force it"
    )
    orphan_requeue_cooldown_sec: timedelta = Field(
        timedelta(seconds=300), description="Time that an orphaned job rests before it is given to another worker"
    )
    checkpoint_interval: int = Field(10, ge=1, description="Pages after which the progress of a job is written down")
    page_lease_sec: timedelta = Field(
        timedelta(seconds=30), description="After this a page that nobody renews is free; a living worker renews it"
    )
    page_max_failures: int = Field(3, ge=1, description="Failures of a page after which it is a person's turn")
    jobs_per_worker: int = Field(2, ge=1, description="Jobs that one worker goes through at a time")
