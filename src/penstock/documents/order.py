"""What somebody wants made into a job."""

import hashlib
from dataclasses import dataclass

from penstock.kernel import json
from penstock.kernel.identity import Caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """`owner` is the caller as the merchant they act for."""

    upload_id: str
    caller: Caller
    owner: Caller
    category: str | None = None
    industry: str | None = None
    allow_duplicate: bool = False
    idempotency_key: str | None = None

    @property
    def tenant(self) -> str:
        """The merchant whose share of the machine is used: the caller's own, however many they act for."""
        return self.caller.merchant_id

    @property
    def digest(self) -> str:
        """Equal for equal requests: a repeat with the same key is told from another request by it."""
        asked = [self.upload_id, self.owner.merchant_id, self.category, self.industry, self.allow_duplicate]
        return hashlib.sha256(json.dump_bytes(asked)).hexdigest()
