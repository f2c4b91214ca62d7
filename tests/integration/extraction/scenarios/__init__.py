"""The scenarios that ETL is specified by; each test has the name of its own as its docstring."""
