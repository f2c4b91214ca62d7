"""Regular expressions that users write, in an engine whose time is linear in the text; each use is counted."""

import time
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

from penstock.kernel.step_budget import spend

_STEPS_PER_SECOND = 500_000  # what compiling takes is not known before; patterns that people write take no time
_LETTERS_PER_STEP = 8


def compiled(pattern: str) -> SchemaValidator:
    """ValueError with the reason for what is not understood: look-around and back references are not."""
    begun = time.thread_time()
    made = _compiled(pattern)
    spend(int((time.thread_time() - begun) * _STEPS_PER_SECOND))
    return made


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> SchemaValidator:
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as wrong:
        lines = [line for line in str(wrong).splitlines() if line.strip()]
        raise ValueError(lines[-1].strip().removeprefix("error: ").removeprefix("SchemaError: ")) from None


def matches(pattern: str, text: str) -> bool:
    """Anywhere in the text."""
    spend(1 + len(text) // _LETTERS_PER_STEP)
    return compiled(pattern).isinstance_python(text)
