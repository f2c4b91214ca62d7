"""Groups of roles that may do something: the tables of HTTP and gRPC are written in these words."""

from penstock.kernel import error_codes
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity.caller import Caller, Role

Roles = frozenset[Role]

SIGNED_IN: Roles = frozenset(Role)
OPERATIONS: Roles = frozenset({Role.OPERATOR, Role.ADMIN})
ADMINS: Roles = frozenset({Role.ADMIN})
CONNECTING: Roles = frozenset({Role.UPLOADER, Role.ADMIN})
SENDING: Roles = frozenset({Role.UPLOADER, Role.ADMIN})
ENDING: Roles = frozenset({Role.UPLOADER, Role.OPERATOR, Role.ADMIN})


def require(caller: Caller, roles: Roles) -> None:
    """ROLE_DENIED, with the roles that may."""
    if caller.role not in roles:
        raise PenstockError(error_codes.ROLE_DENIED, role=caller.role.value, needs=sorted(roles))


def bearer_token(header: str) -> str:
    """What follows `Bearer` in an Authorization header."""
    scheme, _, token = header.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise PenstockError(error_codes.TOKEN_INVALID, reason="the Authorization header is not 'Bearer <token>'")
    return token.strip()
