"""Which language a request wants its sentences in (RFC 9110 §12.5.4, as far as zh and en need it)."""

from penstock.kernel.errors import Language

_LONGEST = 500
_SUPPORTED = {language.value: language for language in Language}


def preferred(accept_language: str | None, default: Language) -> Language:
    """The supported language with the highest weight; the first named wins a tie; `*` means the default."""
    best, best_weight = default, 0.0
    for entry in (accept_language or "")[:_LONGEST].split(","):
        tag, _, parameters = entry.strip().partition(";")
        language = _language_of(tag.strip(), default)
        weight = _weight(parameters)
        if language is not None and weight > best_weight:
            best, best_weight = language, weight
    return best


def _language_of(tag: str, default: Language) -> Language | None:
    if tag == "*":
        return default
    primary = tag.replace("_", "-").partition("-")[0].lower()
    return _SUPPORTED.get(primary)


def _weight(parameters: str) -> float:
    """Missing: 1. Unreadable or out of range: 0, as if the entry were not there."""
    name, _, value = parameters.strip().partition("=")
    if not name:
        return 1.0
    try:
        weight = float(value)
    except ValueError:
        return 0.0
    return weight if name.strip().lower() == "q" and 0 <= weight <= 1 else 0.0
