"""One port to language models, its adapter, its budget."""

from penstock.llm.circuits import circuit_check
from penstock.llm.ports import Ask, LanguageModel, Prompt, Reply, Usage
from penstock.llm.prompts import Template
from penstock.llm.settings import LlmSettings

__all__ = ["Ask", "LanguageModel", "LlmSettings", "Prompt", "Reply", "Template", "Usage", "circuit_check"]
