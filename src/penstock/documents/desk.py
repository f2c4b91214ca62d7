"""What the use cases of jobs work with, handed over once."""

from dataclasses import dataclass, field

from penstock.documents.ports import Examiner
from penstock.documents.settings import DocumentSettings
from penstock.documents.turns import Turns
from penstock.kernel.db import Database
from penstock.kernel.objectstore import ObjectStore
from penstock.kernel.redis import Keys, Redis
from penstock.uploads.tus import Uploads


@dataclass(frozen=True, slots=True)
class Desk:
    """One per process."""

    database: Database
    store: ObjectStore
    redis: Redis
    keys: Keys
    examiner: Examiner
    settings: DocumentSettings
    uploads: Uploads
    store_url: str
    worker_id: str
    admitting: Turns = field(default_factory=Turns)  # by merchant
    drawing: Turns = field(default_factory=Turns)  # by picture: one is not drawn twice at once


def folder_of(job_id: object) -> str:
    return f"jobs/{job_id}"


def source_key(job_id: object) -> str:
    return f"{folder_of(job_id)}/source.pdf"
