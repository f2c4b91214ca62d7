"""The name of one call in logs and answers."""

import re
import secrets

_SANE = re.compile(r"[A-Za-z0-9._:-]{1,64}")


def request_id(offered: str | None) -> str:
    """The caller's own when it is harmless in logs and headers."""
    return offered if offered and _SANE.fullmatch(offered) else secrets.token_hex(16)
