"""tuspy in a process of its own: uploads one file, told how by one JSON argument, and prints the address.

`keep_at_it` goes on until it is done, whatever happens to the server meanwhile, as a patient user would.
"""

import json
import sys
import time
from typing import Any

import requests
from tusclient.client import TusClient
from tusclient.exceptions import TusCommunicationError, TusUploadFailed
from tusclient.storage.filestorage import FileStorage


def upload(given: dict[str, Any]) -> str:
    client = TusClient(given["endpoint"], headers={"Authorization": f"Bearer {given['token']}"})
    uploader = client.uploader(
        given["file"],
        chunk_size=given.get("chunk_size", 1 << 20),
        metadata={"filename": given.get("filename", "upload.pdf"), "filetype": "application/pdf"},
        retries=given.get("retries", 0),
        retry_delay=given.get("retry_delay", 0.1),
        store_url="storage" in given,
        url_storage=FileStorage(given["storage"]) if "storage" in given else None,
        upload_checksum=given.get("checksum", False),
    )
    uploader.upload(stop_at=given.get("stop_at"))
    return str(uploader.url)


def keep_at_it(given: dict[str, Any]) -> str:
    while True:
        try:
            return upload(given)
        except (TusCommunicationError, TusUploadFailed, requests.RequestException):
            time.sleep(0.05)


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    print((keep_at_it if told.get("keep_at_it") else upload)(told))  # noqa: T201
