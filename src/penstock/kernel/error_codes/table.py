"""The table of error codes, and how a row gets into it."""

from penstock.kernel.errors import ErrorCode, Kind, Sentence, Severity

REGISTRY: dict[str, ErrorCode] = {}
INFO, WARNING, ERROR, CRITICAL = Severity.INFO, Severity.WARNING, Severity.ERROR, Severity.CRITICAL


def row(code: str, kind: Kind, severity: Severity, *sentences: str, retryable: bool = False) -> ErrorCode:
    """`sentences`: what happened in Chinese and English, what to do in Chinese and English."""
    zh, en, remedy_zh, remedy_en = sentences
    made = ErrorCode(code, kind, severity, retryable, Sentence(zh, en), Sentence(remedy_zh, remedy_en))
    if code in REGISTRY:
        raise ValueError(f"error code {code} is declared twice")
    REGISTRY[code] = made
    return made
