"""One port to language models, its adapter, its budget.

This face is looked up by name: processes of the sandbox import one module of this package and need no other.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.llm.circuits import circuit_check
    from penstock.llm.ports import Ask, LanguageModel, Prompt, Reply, Usage
    from penstock.llm.prompts import Template
    from penstock.llm.settings import LlmSettings

_HOMES = {
    "Ask": "ports", "LanguageModel": "ports", "Prompt": "ports", "Reply": "ports", "Usage": "ports",
    "LlmSettings": "settings", "Template": "prompts", "circuit_check": "circuits",
}  # fmt: skip

__all__ = ["Ask", "LanguageModel", "LlmSettings", "Prompt", "Reply", "Template", "Usage", "circuit_check"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
