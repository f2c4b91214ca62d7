"""google-resumable-media on a session that a signed POST began; as a program, one that can be killed while it sends.

`python -m tests.support.google_phone SESSION FILE BYTES` says how far it is after each chunk, and stays where it is
told to.
"""

import sys
import time
from pathlib import Path
from typing import BinaryIO

import requests
from google.resumable_media.requests import ResumableUpload

CHUNK = 256 * 1024


class GooglePhone:
    """The library would begin sessions by itself; a phone is given one."""

    def __init__(self, session: str, stream: BinaryIO, total: int) -> None:
        self._transport = requests.Session()
        self._transport.trust_env = False
        self._upload = ResumableUpload("given", CHUNK)
        self._upload._resumable_url = session
        self._upload._stream = stream
        self._upload._total_bytes = total
        self._upload._content_type = "video/mp4"

    def close(self) -> None:
        self._transport.close()

    @property
    def at(self) -> int:
        return int(self._upload.bytes_uploaded)

    @property
    def finished(self) -> bool:
        return bool(self._upload.finished)

    def send_one(self) -> None:
        self._upload.transmit_next_chunk(self._transport)

    def recover(self) -> None:
        """Ask the bucket how far it is, as after any trouble."""
        self._upload._invalid = True
        self._upload.recover(self._transport)


def main(session: str, path: str, stop: str) -> None:
    with Path(path).open("rb") as stream:
        phone = GooglePhone(session, stream, Path(path).stat().st_size)
        while phone.at < int(stop):
            phone.send_one()
            sys.stdout.write(f"{phone.at}\n")
            sys.stdout.flush()
        time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
