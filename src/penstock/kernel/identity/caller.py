"""The caller: a person or program, the merchant they belong to, and what they may do."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

# An id ends up in Redis keys (braces are hash tags there), stream names and logs: no blanks, no controls.
ID_PATTERN = r"[^\s{}\x00-\x1f\x7f-\x9f]{1,128}"
_ID = re.compile(ID_PATTERN)
_HALF_LETTER = re.compile("[\ud800-\udfff]")


class Role(StrEnum):
    """What a caller may do; `api/access.py` says which role may call what."""

    UPLOADER = "uploader"  # sends documents of a merchant
    ANNOTATOR = "annotator"  # answers review tasks
    OPERATOR = "operator"  # keeps the system running; sees every merchant
    ADMIN = "admin"  # may do everything; sees every merchant


@dataclass(frozen=True, slots=True)
class Caller:
    """Proven by a token; never built from a request's body."""

    user_id: str
    merchant_id: str
    role: Role
    expires_at: float | None = field(default=None, compare=False)  # of the token, in Unix time
    session_id: str | None = field(default=None, compare=False)  # of a sign-in, which can be ended; scripts have none
    act_for: tuple[str, ...] = ()  # merchants for which this caller may create jobs, besides their own

    def __post_init__(self) -> None:
        if not all(is_id(merchant) for merchant in self.act_for):
            raise ValueError("a merchant to act for must be 1 to 128 characters without blanks or braces")
        for name, value in (("user id", self.user_id), ("merchant id", self.merchant_id)):
            if not is_id(value):
                raise ValueError(f"the {name} must be 1 to 128 characters without blanks or braces")

    @property
    def sees_all(self) -> bool:
        return self.role in (Role.OPERATOR, Role.ADMIN)

    def sees(self, merchant_id: str) -> bool:
        """May read what belongs to this merchant."""
        return self.sees_all or merchant_id == self.merchant_id

    def may_act_for(self, merchant_id: str) -> bool:
        """May create jobs in the name of this merchant."""
        return self.sees(merchant_id) or merchant_id in self.act_for

    def claims(self) -> dict[str, Any]:
        claims: dict[str, Any] = {"sub": self.user_id, "merchant_id": self.merchant_id, "role": self.role.value}
        return claims | {"act_for": list(self.act_for)} if self.act_for else claims

    @classmethod
    def from_claims(cls, claims: Mapping[str, Any]) -> "Caller":
        """Raises ValueError when a claim is missing or is not what it should be."""
        user_id, merchant_id, role = (claims.get(name) for name in ("sub", "merchant_id", "role"))
        if not isinstance(user_id, str) or not isinstance(merchant_id, str) or not isinstance(role, str):
            raise ValueError("sub, merchant_id and role must be text")  # noqa: TRY004  one error for bad claims
        expires, session_id = claims.get("exp"), claims.get("jti")
        return cls(
            user_id,
            merchant_id,
            Role(role),
            expires_at=None if expires is None else float(expires),
            session_id=session_id if isinstance(session_id, str) else None,
            act_for=_listed(claims.get("act_for", [])),
        )


def _listed(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("act_for must be a list of merchant ids")
    return tuple(value)


def is_id(value: str) -> bool:
    """Without halves of letters, which neither PostgreSQL nor logs take; JSON can bring them."""
    return _ID.fullmatch(value) is not None and _HALF_LETTER.search(value) is None
