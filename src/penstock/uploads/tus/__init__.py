"""Uploads by the tus protocol, version 1.0.0: resumable, checked, durable; `writing.py` has the reasoning."""

from penstock.uploads.tus.expiry import Expiry
from penstock.uploads.tus.handover import FinishedUpload, admit_upload, finished_upload
from penstock.uploads.tus.protocol import (
    ALGORITHMS,
    CONTENT_TYPE,
    EXTENSIONS,
    UPLOAD_ID,
    VERSION,
    clean_name,
    invalid,
    parse_checksum,
    parse_length,
    whole_number,
)
from penstock.uploads.tus.settings import UploadSettings
from penstock.uploads.tus.states import UPLOAD, UploadStatus
from penstock.uploads.tus.store import Upload
from penstock.uploads.tus.store import find as find_upload
from penstock.uploads.tus.uploads import Chunk, Uploads, Wish
from penstock.uploads.tus.writing import Body, ClientGone

__all__ = [
    "ALGORITHMS", "CONTENT_TYPE", "EXTENSIONS", "UPLOAD", "UPLOAD_ID", "VERSION", "Body", "Chunk", "ClientGone",
    "Expiry", "FinishedUpload", "Upload", "UploadSettings", "UploadStatus", "Uploads", "Wish", "admit_upload",
    "clean_name", "find_upload", "finished_upload", "invalid", "parse_checksum", "parse_length", "whole_number",
]  # fmt: skip
