"""Who is asking, for which merchant, in which role; how that is proven, lent and written down.

A merchant id comes out of a checked token and from nowhere else. The one exception, acting for another
merchant, goes through `acting_for`, which writes the audit log.
"""

from penstock.kernel.identity.caller import ID_PATTERN, Caller, Role
from penstock.kernel.identity.impersonation import acting_for
from penstock.kernel.identity.jwks import PublishedKeys
from penstock.kernel.identity.settings import IdentitySettings
from penstock.kernel.identity.sign_in import make_sign_in_code, redeem
from penstock.kernel.identity.tokens import Identity, issue_token

__all__ = [
    "ID_PATTERN",
    "Caller",
    "Identity",
    "IdentitySettings",
    "PublishedKeys",
    "Role",
    "acting_for",
    "issue_token",
    "make_sign_in_code",
    "redeem",
]
