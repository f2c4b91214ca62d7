"""What both APIs work with."""

from dataclasses import dataclass

from penstock.embedded.bucket.faults import Faults
from penstock.embedded.bucket.ledger import Ledger
from penstock.embedded.bucket.names import owner_of
from penstock.embedded.bucket.refusals import Refusal
from penstock.embedded.bucket.requests import Request
from penstock.embedded.bucket.sessions import Sessions
from penstock.embedded.bucket.settings import BucketSettings
from penstock.embedded.bucket.shelf import Shelf
from penstock.embedded.bucket.signatures import Signatures
from penstock.embedded.bucket.threads import ITSELF, FairWork
from penstock.embedded.bucket.tokens import Tokens
from penstock.kernel.clock import Clock


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """One bucket, open."""

    settings: BucketSettings
    shelf: Shelf
    ledger: Ledger
    sessions: Sessions
    signatures: Signatures
    tokens: Tokens
    clock: Clock
    faults: Faults
    fair: FairWork

    def check_bucket(self, name: str) -> str:
        if name != self.settings.name:
            raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
        return name

    async def check_token(self, request: Request, name: str | None) -> None:
        """Counts the request as one of the uploader whose object it names."""
        self.tokens.check(request.headers.get("authorization"))
        await request.admit(ITSELF if name is None else owner_of(name))

    def address(self, request: Request) -> str:
        """Where the sender of this request reaches us."""
        return self.settings.public_url.rstrip("/") or f"http://{request.host}"
