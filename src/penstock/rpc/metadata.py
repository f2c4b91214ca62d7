"""What a call carries beside its message, and who calls.

A token proves it, as over HTTP. Where a gateway in front has done so already, and an operator has said that nothing
else can reach us, its word is taken; otherwise its headers are as good as anybody's, and nobody looks at them.
"""

from collections.abc import Iterable

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import ACT_FOR_PARAMETER, Caller, Identity, refuse_act_for
from penstock.kernel.identity.access import bearer_token

_ACT_FOR = (ACT_FOR_PARAMETER, "impersonate-merchant-id", "x-impersonate-merchant-id")
_CLAIMS = {"sub": "x-user-id", "merchant_id": "x-merchant-id", "role": "x-role"}


class Metadata:
    """By name. One that is repeated has no value that could be believed."""

    def __init__(self, pairs: Iterable[tuple[str, str | bytes]] | None) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs or ():
            if isinstance(value, str):
                self._values.setdefault(name, []).append(value)

    def first(self, name: str) -> str | None:
        return self._values.get(name, [None])[0]

    def only(self, name: str) -> str | None:
        """TOKEN_INVALID when there are several: whoever added one must not choose who they are."""
        found = self._values.get(name, [])
        if len(found) > 1:
            raise PenstockError(error_codes.TOKEN_INVALID, reason=f"{name} is given {len(found)} times")
        return found[0] if found else None


async def caller_of(metadata: Metadata, identity: Identity, *, trusting: bool) -> Caller:
    """TOKEN_MISSING or TOKEN_INVALID for who cannot say who they are. Nobody acts for another merchant here."""
    for name in _ACT_FOR:
        if metadata.first(name) is not None:
            raise refuse_act_for(name)
    if trusting and metadata.only("x-user-id") is not None:
        return _told_by_gateway(metadata)
    header = metadata.only("authorization")
    if header is None:
        raise PenstockError(error_codes.TOKEN_MISSING)
    return await identity.verify(bearer_token(header))


def _told_by_gateway(metadata: Metadata) -> Caller:
    try:
        return Caller.from_claims({claim: metadata.only(name) for claim, name in _CLAIMS.items()})
    except ValueError as wrong:
        names = ", ".join(_CLAIMS.values())
        raise PenstockError(error_codes.TOKEN_INVALID, reason=f"one of {names} is missing or malformed") from wrong
