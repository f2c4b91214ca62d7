"""Who is asking, for which merchant, in which role; how that is proven, lent and written down.

A merchant id comes out of a checked token and from nowhere else. The one exception, acting for another
merchant to create a job, goes through `acting_for`, which writes the audit log.
"""

from penstock.kernel.identity.caller import ID_PATTERN, Caller, Role
from penstock.kernel.identity.impersonation import ACT_FOR_PARAMETER, acting_for, refuse_act_for
from penstock.kernel.identity.jwks import PublishedKeys
from penstock.kernel.identity.sessions import EndedSessions
from penstock.kernel.identity.settings import IdentitySettings
from penstock.kernel.identity.sign_in import make_sign_in_code, redeem
from penstock.kernel.identity.tokens import Identity, issue_token

__all__ = [
    "ACT_FOR_PARAMETER",
    "ID_PATTERN",
    "Caller",
    "EndedSessions",
    "Identity",
    "IdentitySettings",
    "PublishedKeys",
    "Role",
    "acting_for",
    "issue_token",
    "make_sign_in_code",
    "redeem",
    "refuse_act_for",
]
