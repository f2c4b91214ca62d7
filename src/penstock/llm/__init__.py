"""One port to language models, its adapter, its budget."""
