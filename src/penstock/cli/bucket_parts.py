"""Bytes that go to a bucket in parts (S3's way), each to an address of its own that Penstock has signed.

Invariant: only the bucket says which parts are there; Penstock passes it on. After any trouble we ask, and send what is
missing or was cut at another size; so nothing has to be remembered here. When all is there, Penstock is told to put
the parts together.
"""

from typing import Any, BinaryIO

from penstock.cli.bucket_wire import BucketWire, SessionGone, shorter, standstill
from penstock.cli.remote import Away, Patience, Refused, Remote
from penstock.cli.upload_screen import View
from penstock.kernel import failpoints
from penstock.kernel.error_codes import DIRECT_PARTS_MISSING, SESSION_EXPIRED

_AT_ONCE = 10
_TAKEN = 200
_MOST_STANDSTILLS = 5


class BucketParts:
    """One upload's parts; `path` is the upload's at Penstock. Patience with the bucket lasts until it takes a part."""

    def __init__(self, remote: Remote, wire: BucketWire, patience: Patience, path: str) -> None:
        self._remote, self._wire, self._path = remote, wire, path
        self._with_bucket, self._with_penstock = patience.another(), patience

    def send(self, file: BinaryIO, total: int, view: View) -> None:
        """Until all is there and put together; SessionGone when Penstock has ended the upload."""
        standing, reached = 0, -1
        while True:
            offer = self._ask("parts")
            sizes = _sizes(total, offer["part_bytes"])
            there = {part["number"] for part in offer["present"] if sizes.get(part["number"]) == part["size"]}
            is_there = len(there) == len(sizes) or not (offer["present"] or offer["addresses"])  # or became the object
            if is_there and self._is_put_together():
                view.at(total)
                return
            at = sum(sizes[number] for number in there)
            if reached < 0 < at:
                view.goes_on(at)
            answer = self._some(file, self._addresses(offer, sizes, there), sizes, (at, view))
            standing = 0 if at > reached or answer is None else standing + 1
            reached = max(at, reached)
            if standing > _MOST_STANDSTILLS:
                raise standstill(answer)

    def _addresses(self, offer: Any, sizes: dict[int, int], there: set[int]) -> list[Any]:
        """Of the next that are missing. Those of another size are no news to Penstock: they are asked for by number."""
        missing = [number for number in sizes if number not in there]
        offered = [each for each in offer["addresses"] if each["number"] in missing]
        return offered or self._ask("parts", {"numbers": missing[:_AT_ONCE]})["addresses"] if missing else []

    def _some(
        self, file: BinaryIO, addresses: list[Any], sizes: dict[int, int], progress: tuple[int, View]
    ) -> int | None:
        """Up to the first that is not taken: the bucket's last answer, None if there was none."""
        at, view = progress
        for each in addresses:
            view.at(at)
            piece = _piece(file, each["number"], sizes)
            try:
                answer = self._wire.ask("PUT", each["url"], each["headers"], piece)
            except (Away, Refused) as failure:
                self._with_bucket.wait(failure)
                return None
            if answer.status_code != _TAKEN:  # an address that is over, a session that is gone
                return answer.status_code
            self._with_bucket.rest()
            at += len(piece)
        return _TAKEN

    def _is_put_together(self) -> bool:
        failpoints.reach("client.all_parts_sent")
        try:
            self._ask("complete")
        except Refused as refused:
            if refused.code != DIRECT_PARTS_MISSING.code:
                raise
            return False
        return True

    def _ask(self, what: str, body: Any = None) -> Any:
        try:
            return self._with_penstock.over(lambda: self._remote.post(f"{self._path}/{what}", body))
        except Refused as refused:
            if refused.code == SESSION_EXPIRED.code:
                raise SessionGone from None
            raise


def _sizes(total: int, part_bytes: int) -> dict[int, int]:
    """Of every part by its number. An empty file is one empty part."""
    starts = range(0, total, part_bytes) or range(1)
    return {number: min(part_bytes, total - start) for number, start in enumerate(starts, 1)}


def _piece(file: BinaryIO, number: int, sizes: dict[int, int]) -> bytes:
    file.seek((number - 1) * sizes[1])
    piece = file.read(sizes[number])
    if len(piece) < sizes[number]:
        raise shorter()
    return piece
