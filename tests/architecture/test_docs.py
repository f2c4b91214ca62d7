"""The generated pages are current, and no state machine is without its page."""

import importlib
import importlib.util
import pkgutil
from pathlib import Path

import penstock
from penstock.kernel.statemachine import Machine

DOCS = Path(__file__).parents[2] / "docs"


def generator():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestGeneratedPages:
    def test_they_say_what_the_code_says(self):
        stale = [path.name for path, text in generator().pages().items() if path.read_text() != text]
        assert stale == [], "run `make docs`"

    def test_every_key_of_a_source_file_is_explained(self):
        rows = [line for line in generator().source_format().splitlines() if line.startswith("| `")]
        assert len(rows) > 100
        assert [row for row in rows if not row.rstrip(" |").rpartition("|")[2].strip() or row.endswith("|  |")] == []

    def test_every_machine_has_one(self):
        modules = [
            importlib.import_module(found.name) for found in pkgutil.walk_packages(penstock.__path__, "penstock.")
        ]
        declared = {thing.entity for module in modules for thing in vars(module).values() if isinstance(thing, Machine)}
        assert declared == {machine.entity for machine in generator().MACHINES}
