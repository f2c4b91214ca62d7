"""The account of one fetch: what was asked, how often, how long it took and waited, what the source said of limits.

It is stored with each batch. Invariant: it is made of descriptions and hashes, and masked once more at the end.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from penstock.harvest.calling.answers import Answer, Hints
from penstock.harvest.calling.masking import Mask
from penstock.harvest.calling.pacing import Lane
from penstock.harvest.calling.request import Request
from penstock.kernel.rategate import Allow

_WAITED = 0.05  # seconds; less is the way to the gate and back


@dataclass(slots=True)
class Evidence:
    request: Request
    lane: Lane
    rate: dict[str, Any] = field(default_factory=dict)
    response: dict[str, Any] = field(default_factory=dict)
    quota: dict[str, Any] = field(default_factory=dict)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    retries: int = 0
    too_many: int = 0
    retry_after_hits: int = 0
    demotions: int = 0
    waited: float = 0.0
    latency: float = 0.0

    def permitted(self, allow: Allow) -> None:
        self.waited += allow.waited
        self.rate = {
            "limitKey": self.lane.key,
            "permitCost": self.lane.limit.cost,
            "waitMs": round(allow.waited * 1000),
            "decision": "WAIT" if allow.waited > _WAITED else "ALLOW",
            "r": round(allow.rate, 6),
            "burst": self.lane.policy.burst,
            "cooldownUntil": self.rate.get("cooldownUntil"),
            "isLocal": allow.is_local,
        }

    def rejected(self, reason: str, retry_after: float) -> None:
        self.rate = {**self.rate, "limitKey": self.lane.key, "permitCost": self.lane.limit.cost}
        self.rate |= {"decision": "REJECT", "reason": str(reason), "retryAfter": round(retry_after, 3)}

    def answered(self, answer: Answer, body_hash: str, hints: Hints, now: datetime) -> None:
        self.latency = answer.seconds
        self.too_many += answer.says_too_fast
        self.demotions += answer.says_too_fast or answer.status >= 500
        self.attempts.append({"status": answer.status, "latencyMs": round(answer.seconds * 1000)})
        self.response = {
            "status": answer.status,
            "contentType": answer.content_type,
            "bytes": len(answer.body),
            "bodyHash": body_hash,
            "headerHints": hints.shown(),
        }
        if hints.retry_after is not None:
            self.retry_after_hits += 1
            self.rate["cooldownUntil"] = (now + timedelta(seconds=hints.retry_after)).isoformat()
        reset = hints.reset.isoformat() if hints.reset else None
        if hints.remaining is not None or hints.limit is not None:
            self.quota = {"remaining": hints.remaining, "limit": hints.limit, "windowReset": reset}

    def unanswered(self, reason: str, seconds: float) -> None:
        self.latency = seconds
        self.demotions += 1
        self.attempts.append({"reason": reason, "latencyMs": round(seconds * 1000)})
        self.response = {"status": None, "reason": reason}

    def told(self, mask: Mask) -> dict[str, Any]:
        whole = {
            "request": self.request.described(),
            "response": self.response,
            "rate": self.rate,
            "quota": self.quota,
            "retryCount": self.retries,
            "429Count": self.too_many,
            "retryAfterHits": self.retry_after_hits,
            "demoteEvents": self.demotions,
            "permits": len(self.attempts) * self.lane.limit.cost,
            "waitTotalMs": round(self.waited * 1000),
            "latencyMs": round(self.latency * 1000),
            "attempts": self.attempts,
        }
        masked: dict[str, Any] = mask.value(whole)
        return masked
